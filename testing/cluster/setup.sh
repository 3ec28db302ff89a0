#!/bin/bash
# Once: keys, images, and all of Kubernetes in one program. What is there already is kept.
#
#   setup.sh KUBE_DIR PROGRAMS        # PROGRAMS: the folder with nearside and nearside-tools
set -eu
kube=$1 programs=$2 here=$(cd "$(dirname "$0")" && pwd) version=1.34.9
mkdir -p "$kube/pki" "$kube/images" "$kube/pause" "$kube/busybox/bin" "$kube/hyper"

if [ ! -e "$kube/pki/tokens.csv" ]; then
    cd "$kube/pki"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 3650 -subj /CN=test-ca \
        -addext basicConstraints=critical,CA:TRUE 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -keyout api.key -out api.csr -subj /CN=kube-apiserver 2>/dev/null
    printf '%s\n' 'subjectAltName=IP:127.0.0.1,IP:198.18.0.1,IP:198.18.128.1,DNS:kubernetes,DNS:localhost' \
        extendedKeyUsage=serverAuth basicConstraints=CA:FALSE > api.ext
    openssl x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out api.crt -days 3650 -extfile api.ext \
        2>/dev/null
    openssl genrsa -out sa.key 2048 2>/dev/null
    while read -r who user group; do
        echo "$who-token,$user,$who,$group" >> tokens.new
        cat > "$who.conf" <<EOF
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: t, user: u}}],
 clusters: [{name: t, cluster: {server: 'https://198.18.0.1:443', certificate-authority: $kube/pki/ca.crt}}],
 users: [{name: u, user: {token: $who-token}}]}
EOF
    done <<EOF
admin admin system:masters
cm system:kube-controller-manager system:masters
sched system:kube-scheduler system:masters
node1 system:node:node1 system:nodes
node2 system:node:node2 system:nodes
EOF
    mv tokens.new tokens.csv
fi

cc -O2 -static -o "$kube/pause/pause" "$here/pause.c"
python3 "$here/image.py" "$kube/images/pause.tar" docker.io/library/pause:1 "$kube/pause" /pause

# The programs, and the libraries that they are linked with, where they look for them.
rm -rf "$kube/nearside"
install -D "$programs/nearside" "$kube/nearside/usr/bin/nearside"
install -D "$programs/nearside-tools" "$kube/nearside/usr/lib/nearside/nearside-tools"
mkdir -p "$kube/nearside/tmp" "$kube/nearside/bin"
ln -sf /usr/bin/nearside "$kube/nearside/bin/nearside"
for program in nearside nearside-tools; do
    ldd "$programs/$program" | grep -o '/[^ ]*' | while read -r library; do
        install -D "$library" "$kube/nearside$library"
    done
done
python3 "$here/image.py" "$kube/images/nearside.tar" docker.io/library/nearside:1 "$kube/nearside" /usr/bin/nearside

[ ! -x "$kube/hyper/hyper" ] || exit 0
echo "== building Kubernetes $version: sixteen minutes of a processor, once"
cd "$kube/hyper"
cp "$here/hyper.go.txt" main.go
rm -f go.mod go.sum
go mod init hyper 2>/dev/null
mod=$(go mod download -json "k8s.io/kubernetes@v$version" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["GoMod"])')
grep -o 'k8s.io/[a-z-]* => ./staging' "$mod" | cut -d' ' -f1 | while read -r module; do
    go mod edit -replace "$module=$module@v0.${version#1.}"
done
go mod edit -require "k8s.io/kubernetes@v$version"
go mod tidy >/dev/null 2>&1
flag=k8s.io/component-base/version
CGO_ENABLED=0 go build -trimpath -o hyper.new -ldflags \
    "-s -w -X $flag.gitVersion=v$version -X $flag.gitMajor=1 -X $flag.gitMinor=34 -X $flag.gitTreeState=clean" .
mv hyper.new hyper
