"""Evidence packs: run folders in one file, with checksums, a signature, and nothing private."""
