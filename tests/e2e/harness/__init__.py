"""What every suite uses: a server of its own, clients for it, and what it says about itself."""
