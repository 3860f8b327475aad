"""Small guests: an initramfs that loads drivers, and a root file system with this machine's own Python.

    initramfs   drivers, network, then the root file system's /sbin/init. With `muster.desk=PORT` on the
                kernel's command line, it prints what the host sends to that port instead.
    root        Python, a shell and the programs of jobs; its init runs the script that Muster passes

Both are written once into a directory that sessions share.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.engines import image
from tools.microvm import getting

MODULES: tuple[str, ...] = ("drivers/virtio/virtio_ring", "drivers/virtio/virtio")
MODULES += ("drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci_legacy_dev")
MODULES += ("drivers/virtio/virtio_pci", "drivers/virtio/virtio_mmio", "drivers/block/virtio_blk")
MODULES += ("net/core/failover", "drivers/net/net_failover", "drivers/net/virtio_net")
MODULES += ("drivers/firmware/qemu_fw_cfg",)
"""In the order in which they need each other."""
APPLETS = ("cut", "mount", "poweroff", "readlink", "base64", "gzip", "dirname", "chown", "sed")
ROOT_SIZE = "256M"
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for each in @MODULES@; do insmod /modules/$each.ko; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
desk=$(sed -n 's/.*muster\\.desk=\\([0-9]*\\).*/\\1/p' /proc/cmdline)
if [ -n "$desk" ]; then
  identity=$(cat /sys/firmware/qemu_fw_cfg/by_name/opt/muster/secret/raw)
  echo "$identity" | sed 's/.*"machine": "\\([^"]*\\)".*/\\1/' | nc 10.0.2.2 $desk
  poweroff -f
fi
mount -t ext4 /dev/vda /root
exec switch_root /root /sbin/init
"""
ROOT_INIT = """\
#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/bin:/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
mount -t tmpfs tmp /tmp
echo "nameserver 10.0.2.3" >/etc/resolv.conf
cat /sys/firmware/qemu_fw_cfg/by_name/opt/muster/start/raw | bash
while :; do sleep 3600; done
"""
USERADD = """\
#!/bin/sh
# useradd -m -s SHELL NAME, as far as a runner's boot needs it: there is one user to add.
echo "$4:x:1001:1001::/home/$4:$3" >>/etc/passwd
echo "$4:x:1001:" >>/etc/group
mkdir -p "/home/$4" && chown 1001:1001 "/home/$4"
"""
USERMOD = """\
#!/bin/sh
# usermod -d HOME NAME
sed -i "s|^\\($3:[^:]*:[^:]*:[^:]*:[^:]*:\\)[^:]*:|\\1$2:|" /etc/passwd
"""


def initramfs() -> Path:
    return _once("initramfs", _write_initramfs)


def root() -> Path:
    return _once("root", _write_root)


def _once(name: str, write: Callable[[Path, Path], None]) -> Path:
    key = hashlib.sha256(Path(__file__).read_bytes() + Path(image.__file__).read_bytes()).hexdigest()[:12]
    path = getting.UNPACKED / f"{name}-{key}"
    if not path.exists():
        beside = path.with_suffix(f".{os.getpid()}")
        with tempfile.TemporaryDirectory() as directory:
            write(Path(directory), beside)
        beside.replace(path)
    return path


def _write_initramfs(directory: Path, target: Path) -> None:
    for name in ("bin", "dev", "modules", "proc", "root", "sys"):
        (directory / name).mkdir()
    _copy("busybox", directory / "bin")
    kernel = next((getting.UNPACKED / "lib" / "modules").iterdir()) / "kernel"
    for each in MODULES:
        shutil.copy(kernel / f"{each}.ko", directory / "modules")
    names = " ".join(each.rpartition("/")[2] for each in MODULES)
    _script(directory / "init", INIT.replace("@MODULES@", names))
    listed = "\n".join(str(each.relative_to(directory)) for each in sorted(directory.rglob("*")))
    with target.open("wb") as file:
        subprocess.run(  # noqa: S603
            [getting.program("cpio") or "", "--quiet", "-o", "-H", "newc"],
            input=listed.encode(),
            stdout=file,
            cwd=directory,
            check=True,
        )


def _write_root(directory: Path, target: Path) -> None:
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        image.write(Path(archive.name))
        with tarfile.open(archive.name) as content:
            content.extractall(directory, filter="tar")
    _copy("busybox", directory / "usr/bin")
    for each in APPLETS:
        (directory / "usr/bin" / each).symlink_to("busybox")
    _copy("bash", directory / "usr/bin")
    for library in image.shared((Path(getting.program("bash") or ""),)):
        place = directory / str(library.resolve()).lstrip("/")
        beside = place.with_name(library.name)
        beside.parent.mkdir(parents=True, exist_ok=True)
        if not beside.exists():
            shutil.copy(library.resolve(), beside)
    for link, target_name in (("bin", "usr/bin"), ("sbin", "usr/sbin")):
        if not (directory / link).exists() and not (directory / link).is_symlink():
            (directory / link).symlink_to(target_name)
    (directory / "usr/sbin").mkdir(exist_ok=True)
    for name, text in (("init", ROOT_INIT), ("useradd", USERADD), ("usermod", USERMOD)):
        _script(directory / "usr/sbin" / name, text)
    mkfs = [getting.program("mkfs.ext4") or "", "-q", "-F", "-d", str(directory), str(target), ROOT_SIZE]
    subprocess.run(mkfs, check=True)  # noqa: S603


def _copy(name: str, directory: Path) -> None:
    found = getting.program(name)
    if found is None:
        raise FileNotFoundError(f"there is no {name} to put into a guest")
    shutil.copy(Path(found).resolve(), directory / name)


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
