"""What is used to work on Muster and is no part of it. Nothing in src imports from here."""
