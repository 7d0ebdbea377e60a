# Everything a boot says of itself, in sections; runs once per boot. CONTROLLER is set by the line before.
s() { echo "@@ $1"; }
f() { for x in "$@"; do [ -r "$x" ] && { s "${x##*/}"; cat "$x"; echo; }; done 2>/dev/null; }
n=
for b in /sys/block/mmcblk*; do
  case ${b##*/} in *boot*|*rpmb*|*gp*) continue;; esac
  case $(readlink -f $b/device) in *"$CONTROLLER"*) n="$n ${b##*/}";; esac
done
s disks; echo $n
set -- $n; d=$1
if [ $# = 1 ]; then
b=/sys/block/$d
s refused
{
:
KNOBS
} 3>&1 2>/dev/null
fi
s version; cat /proc/version
s cmdline; cat /proc/cmdline
s uptime; cat /proc/uptime
s date; date +%s
s memory; grep MemTotal /proc/meminfo
s uid; id -u
s tools; for t in fio dd blkdiscard mkfs.ext2 mkfs.ext4 mkfs.vfat mkfs.f2fs timeout gzip mmc; do command -v $t >/dev/null 2>&1 && echo $t; done
f /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq
for z in /sys/class/thermal/thermal_zone*/temp; do [ -r $z ] && { s temp; cat $z; }; done 2>/dev/null
if [ "$d" ]; then
b=/sys/block/$d; m=$(readlink -f $b/device); h=${m%/*}; h=${h##*/}
s host; echo $h
s path; echo $m
f $b/size $b/ro $b/queue/scheduler $b/queue/read_ahead_kb $b/queue/max_sectors_kb $b/queue/nr_requests $b/queue/discard_max_bytes $b/queue/write_cache
f $m/cid $m/csd $m/name $m/type $m/manfid $m/oemid $m/serial $m/date $m/fwrev $m/hwrev $m/prv $m/life_time $m/pre_eol_info $m/enhanced_rpmb_supported $m/cmdq_en
f /sys/kernel/debug/$h/ios /sys/kernel/debug/$h/$h:*/ext_csd
s partitions; for p in $b/${d}p*; do [ -r $p/partition ] && echo ${p##*/} $(cat $p/partition $p/start $p/size) $(ls $p/holders); done
s devs; for x in $b $b/${d}p*; do [ -r $x/dev ] && echo ${x##*/} $(cat $x/dev); done
s mountinfo; cat /proc/self/mountinfo
s swaps; grep "^/dev/$d" /proc/swaps
s holders; ls $b/holders
s mmclines; dmesg | grep -E "mmc|sdhci" | tail -n 60
fi
s end
