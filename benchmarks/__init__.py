"""How fast and how right the embedded executor is: ratios, each from one interleaved run. See README.md here."""
