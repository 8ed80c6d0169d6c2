"""What a schema cannot say: which bytes are a picture, and which names this server knows.

Schemathesis makes requests from openapi.yaml. Where it means a request to be right, its random bytes become a real
picture and its random names become known ones, so that the request reaches the engine and not the first refusal."""

import itertools
import pathlib
import zlib

import schemathesis

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = (ROOT / "static/samples/cat.jpg").read_bytes()
WORDS = {
    "class": ["top1", "top2", "cat", "3", "top1,dog", "CAT"],
    "versus": ["dog", "5"],
    "model": ["default"],
    "background": ["white", "black", "#102030", "none"],
    "q": ["c", "a", "dog", "air plane"],
    "texts": ["a dog|a cat"],
}
SENDS_PICTURE = {"/explain", "/predict"}
number = itertools.count()


def meant_to_be_right(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    if not meant_to_be_right(case):
        return
    query = case.query or {}
    for name, words in WORDS.items():
        if name in query:  # the same request always becomes the same request
            query[name] = words[zlib.crc32(repr(query[name]).encode()) % len(words)]
    if case.operation.path in SENDS_PICTURE:
        query.pop("image_id", None)  # either a picture or the name of one
        if "deadline_ms" in query:
            query["deadline_ms"] = 60000
        # Each upload is another picture, so that one that was forgotten does not come back by itself. The body goes past the
        # case: bytes are no "string" to the validator, which would take the request for a wrong one.
        picture = PICTURE + str(next(number)).encode()
        if case.media_type == "multipart/form-data":
            kwargs["files"] = {"img": ("x.jpg", picture)}
        else:
            kwargs["data"] = picture
    if case.operation.path == "/ui/{file}":
        case.path_parameters["file"] = "app.js"
