"""An absolute time decides no test: hypothesis has no deadline here."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("elastiq", deadline=None)
hypothesis.settings.load_profile("elastiq")
