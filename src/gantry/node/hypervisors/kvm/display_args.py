"""QEMU's arguments for VNC, SPICE, graphics, sound and USB devices of a guest. Pure."""

from gantry import errors
from gantry.node.hypervisors import guest_slots
from gantry.node.hypervisors.kvm.blockdev_args import text
from gantry.rpc import calls

VNC_FIRST = 5900
VNC_DISPLAYS = 99
GRAPHICS = {
    "": "VGA",
    "std": "VGA",
    "cirrus": "cirrus-vga",
    "vmware": "vmware-svga",
    "qxl": "qxl-vga",
    "virtio": "virtio-vga",
}
SOUND = {"ac97": ["AC97"], "es1370": ["ES1370"], "hda": ["intel-hda", "hda-duplex"]}
SPICE_OPTIONS = {
    "spice_image_compression": "image-compression",
    "spice_jpeg_wan_compression": "jpeg-wan-compression",
    "spice_zlib_glz_wan_compression": "zlib-glz-wan-compression",
    "spice_streaming_video": "streaming-video",
}


def arguments(instance: calls.Instance) -> list[str]:
    """Return the arguments for an instance."""
    return [*_vnc(instance), *_spice(instance), *_graphics(instance), *_sound(instance), *_usb(instance)]


def check(instance: calls.Instance) -> None:
    """Raise InvalidError for a SPICE server without a port: unlike VNC, SPICE does not choose a free port itself."""
    if text(instance, "spice_bind") and not instance.network_port:
        raise errors.InvalidError(f"spice_bind needs a network port, and instance {instance.name} has none")


def _escaped(value: str) -> str:
    return value.replace(",", ",,")


def _vnc(instance: calls.Instance) -> list[str]:
    """Return the VNC server: a socket in a folder, or a display at an address."""
    address = text(instance, "vnc_bind_address")
    if not address:
        return []
    words, options = [vnc_listener(instance, address)], []
    if file := text(instance, "vnc_password_file"):
        options += ["-object", f"secret,id=vnc-password,file={_escaped(file)}"]
        words.append("password-secret=vnc-password")
    if instance.hvparams.get("vnc_tls"):
        verify = "on" if instance.hvparams.get("vnc_x509_verify") else "off"
        folder = _escaped(text(instance, "vnc_x509_path"))
        options += ["-object", f"tls-creds-x509,id=vnc-tls,dir={folder},endpoint=server,verify-peer={verify}"]
        words.append("tls-creds=vnc-tls")
    keymap = text(instance, "keymap")
    return [*options, "-vnc", ",".join(words), *(("-k", keymap) if keymap else ())]


def vnc_listener(instance: calls.Instance, address: str) -> str:
    """Return where VNC listens: a socket, the instance's own port, or else the first free display."""
    if address.startswith("/"):
        return f"unix:{_escaped(address)}/{instance.name}.vnc"
    host = f"[{address}]" if ":" in address else address
    if instance.network_port > VNC_FIRST:
        return f"{host}:{instance.network_port - VNC_FIRST}"
    return f"{host}:0,to={VNC_DISPLAYS}"


def _spice(instance: calls.Instance) -> list[str]:
    address = text(instance, "spice_bind")
    if not address:
        return []
    encrypted = bool(instance.hvparams.get("spice_use_tls"))
    words = [f"{'tls-port' if encrypted else 'port'}={instance.network_port}", f"addr={_escaped(address)}"]
    options: list[str] = []
    if file := text(instance, "spice_password_file"):
        options += ["-object", f"secret,id=spice-password,file={_escaped(file)}"]
        words.append("password-secret=spice-password")
    else:
        words.append("disable-ticketing=on")
    if encrypted:
        words += [f"x509-dir={_escaped(text(instance, 'vnc_x509_path'))}"]
        words += [f"tls-ciphers={_escaped(text(instance, 'spice_tls_ciphers'))}"]
    if version := int(instance.hvparams.get("spice_ip_version", 0)):
        words.append(f"ipv{version}=on")
    words += [f"{option}={text(instance, name)}" for name, option in SPICE_OPTIONS.items() if text(instance, name)]
    words.append(f"playback-compression={'on' if instance.hvparams.get('spice_playback_compression', True) else 'off'}")
    return [*options, "-spice", ",".join(words), *_agent(instance)]


def _agent(instance: calls.Instance) -> list[str]:
    if not instance.hvparams.get("spice_use_vdagent", True):
        return []
    port = "virtserialport,bus=channels.0,chardev=vdagent,name=com.redhat.spice.0"
    return [
        *("-device", f"virtio-serial-pci,id=channels,addr={guest_slots.CHANNELS:#x}"),
        *("-chardev", "spicevmc,id=vdagent,name=vdagent", "-device", port),
    ]


def has_screen(instance: calls.Instance) -> bool:
    """Return whether the guest has VNC or SPICE, which show a graphics card's output."""
    return bool(text(instance, "vnc_bind_address") or text(instance, "spice_bind"))


def _graphics(instance: calls.Instance) -> list[str]:
    kind = text(instance, "vga")
    if kind == "none" or not (kind or has_screen(instance)):
        return []
    device = "qxl-vga" if not kind and text(instance, "spice_bind") else GRAPHICS[kind]
    return ["-device", f"{device},addr={guest_slots.VGA:#x}"]


def _sound(instance: calls.Instance) -> list[str]:
    options: list[str] = []
    for number, device in enumerate(SOUND.get(text(instance, "soundhw"), [])):
        options += ["-device", device if number else f"{device},addr={guest_slots.SOUND:#x}"]
    return options


def _usb(instance: calls.Instance) -> list[str]:
    devices = text(instance, "usb_devices").split()
    if mouse := text(instance, "usb_mouse"):
        devices.insert(0, f"usb-{mouse}")
    if not devices:
        return []
    options = ["-device", f"qemu-xhci,id=usb,addr={guest_slots.USB:#x}"]
    for device in devices:
        options += ["-device", device]
    return options
