# Everything a boot says of itself, in sections; runs once per boot. CONTROLLER is set by the line before. A process
# costs a slow board 20 ms, so files are read by one grep that puts their names before their lines, or by the shell.
s() { echo "@@ $1"; }
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
s clock; date +%s
s memory; read -r x </proc/meminfo; echo "$x"
s tools; for t in fio dd blkdiscard mkfs.ext2 mkfs.ext4 mkfs.vfat mkfs.f2fs timeout gzip mmc; do command -v $t >/dev/null 2>&1 && echo $t; done
set -- /proc/version /proc/cmdline /proc/uptime /proc/swaps /proc/self/mountinfo
set -- "$@" /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq
set -- "$@" /sys/class/thermal/thermal_zone*/temp
if [ "$d" ]; then
m=$(readlink -f $b/device); h=${m%/*}; h=${h##*/}
s path; echo $m
s partitions; for p in $b/${d}p*; do
[ -r $p/partition ] && read -r q <$p/partition && read -r x <$p/start && read -r y <$p/size && echo ${p##*/} $q $x $y
done
s devs; for x in $b $b/${d}p*; do [ -r $x/dev ] && read -r q <$x/dev && echo ${x##*/} $q; done
s holders; for x in $b/holders/* $b/${d}p*/holders/*; do [ -e $x ] && x=${x%/holders/*} && echo ${x##*/}; done
s mmclines; dmesg | grep -E "mmc|sdhci" | tail -n 60
set -- "$@" $b/size $b/ro $b/queue/scheduler $b/queue/read_ahead_kb $b/queue/max_sectors_kb $b/queue/nr_requests
set -- "$@" $b/queue/discard_max_bytes $b/queue/write_cache /sys/kernel/debug/$h/ios
set -- "$@" cid csd name type manfid oemid serial date fwrev hwrev prv life_time pre_eol_info enhanced_rpmb_supported cmdq_en
x=$(echo /sys/kernel/debug/$h/$h:*/ext_csd)
if [ -r "$x" ]; then s ext_csd; cat "$x"; echo; fi
cd $m
fi
s files; grep "" /dev/null "$@" 2>/dev/null
s end
