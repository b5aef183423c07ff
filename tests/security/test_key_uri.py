import pytest

from gantry.security import key_uri

MODULE = "?module-path=/usr/lib/module.so"


def test_a_uri_gives_module_token_and_key() -> None:
    text = (
        "pkcs11:model=SoftHSM%20v2;serial=5f0a;token=a%3bb;id=%01%ff;object=%c3%bc;type=private?module-path=/a%20b.so"
    )
    parsed = key_uri.parse(text)
    assert parsed == key_uri.KeyUri(
        "/a b.so", {"token": "a;b", "model": "SoftHSM v2", "serial": "5f0a"}, "ü", b"\x01\xff"
    )
    assert str(parsed) == "pkcs11:token=a;b;model=SoftHSM v2;serial=5f0a;object=ü;id=%01%FF"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file:token=a;object=b" + MODULE, "not a PKCS#11 URI on one line"),
        ("pkcs11:token=a;object=b c" + MODULE, "not a PKCS#11 URI on one line"),
        ("pkcs11:token=a;object=b" + MODULE + "\npkcs11:", "not a PKCS#11 URI on one line"),
        ("pkcs11:token=a;object=ü" + MODULE, "letters beyond ASCII as %XX"),
        ("pkcs11:object=b" + MODULE, "names no token: add token=LABEL"),
        ("pkcs11:token=a" + MODULE, "names no key: add object=LABEL or id=%XX"),
        ("pkcs11:token=a;object=b", r"end it with \?module-path=/PATH/MODULE.so"),
        ("pkcs11:token=a;object=b?module-path=module.so", "no absolute path of the module"),
        ("pkcs11:token=a;object=b?module-path=/a%ff.so", "a value of module-path that is not UTF-8"),
        ("pkcs11:token=a;object=b?module-name=softhsm2", "has 'module-name', which Gantry does not support there"),
        (
            "pkcs11:token=a;object=b;module-path=/a.so" + MODULE,
            "has 'module-path', which Gantry does not support there",
        ),
        ("pkcs11:token=a;object=b;slot-id=1" + MODULE, "has 'slot-id', which Gantry does not support there"),
        (
            "pkcs11:token=a;object=b?pin-source=/file&module-path=/a.so",
            "has pin-source, but the PIN belongs into the file",
        ),
        ("pkcs11:token=a;object=b;object=c" + MODULE, "has object twice"),
        ("pkcs11:token=a;object=" + MODULE, "an invalid value of object: ''"),
        ("pkcs11:token=a;object" + MODULE, "an invalid value of object: ''"),
        ("pkcs11:token=a%2;object=b" + MODULE, "an invalid value of token: 'a%2'"),
        ("pkcs11:token=a;object=%ff" + MODULE, "a value of object that is not UTF-8"),
        ("pkcs11:token=a;object=b;type=public" + MODULE, "names another object than a private key"),
    ],
)
def test_a_uri_that_does_not_name_one_key_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        key_uri.parse(text)


@pytest.mark.parametrize(
    "text", ["pkcs11:token=a;object=b" + MODULE + "&pin-value=7391", "pkcs11:pin-value=7391" + MODULE]
)
def test_a_pin_in_the_uri_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="the PIN belongs into the file with the secret alone") as caught:
        key_uri.parse(text)
    assert "7391" not in str(caught.value)
