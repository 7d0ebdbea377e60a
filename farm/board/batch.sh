# The part of a batch that runs on the board. POSIX sh: busybox ash, mksh, dash, bash; only builtins, cat, grep, head,
# mkdir, mv, rm, sleep, tail, wc and what the caller found; what packs smallest is tried here. batch.py strips comments,
# fills in @words@, and one subshell of the board's shell evaluates it, then the batch: `a`, a `j` for each job, `g`.
# Names are short because every byte crosses a console. No backslashes: mksh' echo would not keep them.
#   m marker (set by the loader)  n number of jobs, L limit of a kind, A snippet around the next jobs (set by the batch)
#   D directory  K printk file  k its old value  P its value while measuring  H digest
#   i job number  T kinds that were ended at their limit  B bytes of the packed stream  C what packed it
#   F where the kinds of the job that runs go, kNUMBERa to kNUMBERe; beside them x the index of all jobs, z the packed stream
i=0 D= P=- K=@printk@ H=@digest@

# s: end every process of this batch's jobs, wherever fio's setsid() or a double fork put it: they are known by their
# environment. busybox' own timeout would end its child alone.
s(){
for t in TERM TERM KILL;do
p=$(cd /proc;grep -ls farm=$m [0-9]*/environ)
[ "$p" ]||return
for p in $p;do
kill -$t ${p%/*}
done
sleep 1
done
}

# e: the only way out: leave nothing running, nothing in tmpfs, the console as it was.
e(){
s
rm -rf $D
echo $k >$K
stty echo
echo "@$m bye"
exit
}

# x SECONDS FILE CODE: run CODE, its status in c. The watchdog is ended by a signal that no shell can lose between fork
# and trap, or between trap and wait; should its sleep outlive it, that has the mark of the jobs. Before a measurement
# it says `+i` every five seconds, which tells a board at work from one that hangs; while measuring it only sleeps.
x(){
{ (exec 2>&1;export farm=$m;@shell@ "$3");echo $? >$D/$i$2;} </dev/null|(head -c $L >$F$2;exec cat >/dev/null)&
p=$!
(t=$1 b=$1
while [ $t -gt 0 ];do
[ $2 = a ]&&b=5
[ $t -lt $b ]&&b=$t
farm=$m sleep $b&
echo $!>$D/$i$2q;wait $!||break
t=$((t-b))
[ $2 = a ]&&echo "@$m +$i"
done
echo >$D/t;s;kill -9 $p)&
q=$!
wait $p
kill -9 $q
wait $q
read q <$D/$i$2q
kill $q
c=-
read c <$D/$i$2
[ -f $D/t ]&&T=$T$2&&rm $D/t
}

# j ID SECONDS SECONDS_BEFORE CODE BEFORE: a line to the index, its kinds to their files. Few processes, because a fork
# costs milliseconds on a small board. M is the last line that the kernel's log had when it was last looked at. `+i` says
# that what is measured comes next; the snippet gives it time to leave the UART.
j(){
i=$((i+1)) T=. c=0 u=0 v=0 F=$D/k$((100000+i))
[ "$5" ]&&x $3 a "$5"
[ $c = 0 ]&&{
echo "@$m +$i"
[ "$A" ]&&(export farm=$m;@shell@ "$A") >${F}b 2>&1 </dev/null
read u q </proc/uptime
x $2 c "$4"
read v q </proc/uptime
[ "$A" ]&&(export farm=$m;@shell@ "$A") >${F}d 2>&1 </dev/null
}
dmesg|tail -n 1 >$D/w
IFS= read -r q <$D/w
[ "$M" = "$q" ]||{
dmesg >$D/l
f=$(grep -nxF -e "$M" $D/l|tail -n 1)
tail -n +$((${f%%:*}+1)) $D/l|tail -n 200 >${F}e
M=$(tail -n 1 $D/l)
}
echo $c $u $v $T >>$D/x
echo "@farm $i/$n $1 $c $((${v%.*}-${u%.*}))"
}

# l TEXT: a line with its own digest; h: what there is to fetch; f OFFSET LENGTH: one frame.
l(){ echo "@$m $* $(echo "$*"|$H)";}
h(){ l = $B $C $P $D $($H <$D/z);}
f(){ (
c=$((B-$1))
[ $c -gt $2 ]&&c=$2
q="$1 $c "
set -- $(tail -c +$(($1+1)) $D/z|head -c $c|@encoder@)
IFS=
l "$q$*"
)}

# a: find a directory, silence the kernel; g PACKER...: pack, saying `+` with each try, and answer until told to quit
a(){
trap e INT HUP
d="@temporary@" t=$(cat /proc/mounts)
for d in $(for d in $d;do case $t in (*" $d tmpfs "*)echo $d;esac;done) $d;do
D=$d/farm.$$
mkdir $D&&break
D=
done
[ $D ]||{ l !;e;}
read k q <$K
echo 1 >$K
read P q <$K
M=$(dmesg|tail -n 1)
echo "@$m go"
}
g(){
(cd $D;wc -c k*;echo .) >>$D/x
B=999999999
for q in "$@";do
echo "@$m +"
command -v ${q%% *}>$D/w&&(cd $D;cat x k*|$q) >$D/w||continue
b=$(($(wc -c <$D/w)))
[ $b -lt $B ]&&mv $D/w $D/z&&B=$b C=${q%% *}
done
h
while read -r a o b q;do
case $a$o$b in
q)e;;
f*[!0-9]*|f);;
f*)f $o $b;;
*)h
esac
done
e
}
