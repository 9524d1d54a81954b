"""What callers give, checked: words in, values out."""
