"""``dragoman serve``: models behind the protocols of LibreTranslate and of OpenAI."""
