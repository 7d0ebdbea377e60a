#!/bin/sh
# First program of a virtual board, whichever userland: mounts, modules, then a shell on the console for ever.
export PATH=/sbin:/bin:/usr/sbin:/usr/bin
if [ -x /bin/busybox ]; then
	/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
	/bin/busybox --install -s
fi

mkdir -p /proc /sys /dev /tmp /run /mnt /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug
if [ -r /etc/hostname ]; then cat /etc/hostname >/proc/sys/kernel/hostname; fi

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
export HOME=/root
if [ -x /bin/busybox ]; then
	# busybox's own init, so that its reboot and poweroff work
	cat >/etc/inittab <<END
$console::respawn:-/bin/sh
::ctrlaltdel:/sbin/reboot
::shutdown:/bin/umount -a -r
END
	exec /sbin/init
fi
while :; do
	# A session leader's first terminal becomes its controlling one, which Ctrl-C and job control need.
	setsid /bin/sh -c "exec /bin/sh -l <>/dev/$console >&0 2>&1"
done
