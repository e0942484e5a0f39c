"""Recipes, by corpus: ``dragoman run almanac/st`` runs ``recipes/almanac/st.yaml``; ``dragoman recipes`` lists them."""
