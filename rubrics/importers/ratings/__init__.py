"""Ratings of people as other systems write them, read into sheets: what one person says of one output."""
