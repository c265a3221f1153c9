"""How the SQLite frontier behaves from ten thousand to five million URLs, on one host or on very many."""
