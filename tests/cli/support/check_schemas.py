"""check_schemas.py FOLDER SCHEMA DOCUMENT [SCHEMA DOCUMENT ...]

Every schema of FOLDER against the metaschema of draft 2020-12, then every DOCUMENT against its SCHEMA. Exit code 77
where python3-jsonschema (4 or later) is not installed.
"""

import json
import pathlib
import sys
import warnings

try:
    warnings.simplefilter("ignore")
    from jsonschema import Draft202012Validator, RefResolver
except ImportError as error:
    print(error)
    sys.exit(77)


def main(folder, *pairs):
    schemas = {path.name: json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")}
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    failures = 0
    for name, document in zip(pairs[::2], pairs[1::2]):
        base = (pathlib.Path(folder) / name).resolve().as_uri()
        validator = Draft202012Validator(schemas[name], resolver=RefResolver(base, schemas[name]))
        for error in validator.iter_errors(json.loads(pathlib.Path(document).read_text())):
            failures += 1
            print(f"{name}: {document}: {error.json_path}: {error.message[:300]}")
    return 1 if failures else 0


sys.exit(main(*sys.argv[1:]))
