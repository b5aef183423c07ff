"""What the Debian packages hold, for ``debian/rules``; and releases.

python -m tools.packaging.libraries         the libraries of pyproject.toml, one on each line
python -m tools.packaging.tree FOLDER       all files of all packages below a folder
python -m tools.packaging.release STEP      version, changelog and tag; checksums and signature (make release)
"""
