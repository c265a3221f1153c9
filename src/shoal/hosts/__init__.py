"""What is known about hosts: their state and valve, how both change, and how a person sees and steers them."""
