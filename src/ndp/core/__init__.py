"""What every layer uses: types, arrays, units, randomness, files."""
