# Process 1 of a machine (machine.py): an overlay over the root of this machine, its own /proc, /sys, /run and /tmp, then systemd.
set -e
directory=$1 repository=$2
layers=$directory/layers root=$directory/layers/root
mount --make-rprivate /
mkdir "$layers" && mount -t tmpfs tmpfs "$layers"
mkdir "$layers/upper" "$layers/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys" && mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp" && chmod 1777 "$root/tmp"
for folder in "$directory" "$repository"; do mkdir -p "$root$folder" && mount --bind "$folder" "$root$folder"; done
mount --bind "$directory/home" "$root/home"
chmod 755 "$root/root"       # the tests' Python may be below it

units=$root/etc/systemd/system
# They would change the kernel, which all machines share, or clean up /tmp, where the page's files are.
for unit in systemd-sysctl systemd-modules-load systemd-binfmt systemd-timesyncd systemd-tmpfiles-clean; do ln -sf /dev/null "$units/$unit.service"; done
: >"$root/etc/tmpfiles.d/tmp.conf"
cat >"$units/fairway-machine.target" <<END
[Unit]
Requires=basic.target dbus.service systemd-logind.service systemd-user-sessions.service
After=basic.target dbus.service systemd-logind.service systemd-user-sessions.service
END

cd "$root" && mkdir -p before && pivot_root . before && umount --lazy /before
export container=fairway
exec /lib/systemd/systemd --system --unit=fairway-machine.target --show-status=0
