#!/bin/bash
# Ends what up.sh began, by process id, and takes its namespaces and control groups away.
#
#   down.sh KUBE_DIR
R=${1:?which folder}/run
for p in $(tac $R/pids); do kill $p 2>/dev/null; done; sleep 1; for p in $(cat $R/pids); do kill -9 $p 2>/dev/null; done   # unshare --fork ignores TERM
sleep 1
for i in 1 2 3; do for c in /sys/fs/cgroup/*; do find $c/node$i -depth -type d -exec rmdir {} \; 2>/dev/null; done; ip netns del kn$i 2>/dev/null; done
ip netns del kcp
umount -R "$R"/node*/containerd/* 2>/dev/null
[ -n "$R" ] && rm -rf "$R"
