"""Folders in Hugging Face's layout become model folders, and model folders such folders; and its Hub."""
