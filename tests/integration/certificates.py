"""A private certificate authority in a folder, as sites have one for clouds of their own."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """It signs servers' certificates; ``bundle`` is the file that makes a client trust it."""

    def __init__(self, folder: Path, name: str = "Site CA", issuer: Authority | None = None) -> None:
        self.folder, self.issuer = folder, issuer
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = dict.fromkeys(
            ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"], False
        )
        signs = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage)
        is_authority = (x509.BasicConstraints(ca=True, path_length=None), signs)
        self.certificate = (issuer or self)._sign(self.subject, self.key.public_key(), DAY, is_authority)
        self.bundle = self._write(f"{name}.pem", _pem(self.certificate))

    def server(self, *names: str, days_left: int = 1) -> tuple[str, str]:
        """The files of a new certificate for these names (with what is between it and the root), and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
        no_authority = (x509.BasicConstraints(ca=False, path_length=None), alternatives)
        chain = _pem(self._sign(subject, key.public_key(), days_left * DAY, no_authority))
        chain += _pem(self.certificate) if self.issuer else b""
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._write("server.pem", chain), self._write("server.key", private)

    def _sign(self, subject: x509.Name, key: Any, left: timedelta, extensions: tuple[Any, ...]) -> x509.Certificate:
        now = datetime.now(timezone.utc)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self.subject).public_key(key)
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - 10 * DAY).not_valid_after(now + left)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = made.add_extension(ours, critical=False)
        for extension in extensions:
            made = made.add_extension(extension, critical=not isinstance(extension, x509.SubjectAlternativeName))
        return made.sign(self.key, hashes.SHA256())

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
