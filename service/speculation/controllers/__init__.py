"""Controllers, one file each, registered under the file's name."""
