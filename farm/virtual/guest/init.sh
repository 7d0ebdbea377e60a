#!/bin/busybox sh
# First program of a virtual board: mounts, modules, then busybox init with a shell on the console.
export PATH=/sbin:/bin:/usr/sbin:/usr/bin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /mnt /etc /root /sbin /usr/bin /usr/sbin
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug
ifconfig lo up

modules=/lib/modules/$(uname -r)
if [ -r "$modules/boot" ]; then
	while read -r module; do insmod "$modules/$module"; done <"$modules/boot"
else
	echo "init: no modules for $(uname -r)" >/dev/kmsg
fi
# The card is found by a kernel thread of its own; give it its moment before anybody looks.
tries=0
while [ ! -b /dev/mmcblk0 ] && [ "$tries" -lt 30 ]; do
	sleep 0.1
	tries=$((tries + 1))
done

console=$(cat /sys/class/tty/console/active)
console=${console##* }
cat >/etc/inittab <<END
$console::respawn:-/bin/sh
::ctrlaltdel:/sbin/reboot
::shutdown:/bin/umount -a -r
END
export HOME=/root
exec /sbin/init
