"""What detect-secrets and Presidio find in texts: run by `leaks.py` in an environment of their own.

detect-secrets scans each text as a file, with the plugins that are on by default. Presidio has its recognizers of cards,
IBANs, telephone numbers and e-mail addresses, which need no model: spaCy's are in none of the registries that are reached,
so a blank one splits the words.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path


def by_detect_secrets(texts):
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    found = []
    with tempfile.TemporaryDirectory() as folder, default_settings():
        for number, text in enumerate(texts):
            path = Path(folder, f"{number}.txt")
            path.write_text(text)
            found.append({"secret": bool(list(scan_file(str(path))))})
    return found


def by_presidio(texts):
    import spacy
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    kinds = ["CREDIT_CARD", "IBAN_CODE", "PHONE_NUMBER", "EMAIL_ADDRESS"]
    with tempfile.TemporaryDirectory() as folder:
        spacy.blank("en").to_disk(folder)
        models = [{"lang_code": "en", "model_name": folder}]
        engine = NlpEngineProvider(
            nlp_configuration={"nlp_engine_name": "spacy", "models": models}
        ).create_engine()
        analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
        return [{"personal": bool(analyzer.analyze(text, "en", entities=kinds))} for text in texts]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    peers = {"detect-secrets": by_detect_secrets, "Presidio": by_presidio}
    print(json.dumps({name: find(given) for name, find in peers.items()}))
