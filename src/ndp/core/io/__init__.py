"""Files: tables, images, checkpoints."""
