"""The Batch API: questions asked in files at half the price, through any interruption."""
