"""Rules of acceptance, one file each, registered under the file's name."""
