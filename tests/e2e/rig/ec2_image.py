"""What both the EC2 server and its users must name alike."""

IMAGE = "ami-03cf127a"  # one of moto's own
