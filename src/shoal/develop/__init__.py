"""What a person uses while writing a spider: a page from anywhere, one handler on it, and more."""
