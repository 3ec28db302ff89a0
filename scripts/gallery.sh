#!/bin/sh
# Makes a gallery: pages of real measurements of this machine, each of seconds, and pictures of
# four of them where Chromium is. What cannot be measured here (no root, no ip) is named and left out.
# Usage: scripts/gallery.sh PROGRAM FOLDER
set -eu

program=$(readlink -f "$1")
# By its name, which the pages quote.
PATH=$(dirname "$program"):$PATH
mkdir -p "$2"
folder=$(readlink -f "$2")
site=$(mktemp -d)
index=$folder/index.html
cd "$folder"
rm -rf ./*.html ./*.png ./*.json ./*.ndjson experiment

nearside serve --respond 100 --listen 127.0.0.1:8099 2>/dev/null &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$site"' EXIT
url=http://127.0.0.1:8099/
tries=0
until nearside load $url -c 1 -n 1 --no-floor --progress none >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ $tries -lt 50 ] || { echo "gallery: the server does not answer" >&2; exit 1; }
	sleep 0.2
done

cat >"$index" <<'HEAD'
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Gallery</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8bf}}</style></head>
<body><h1>Gallery</h1><p>Pages of measurements of seconds, made on this machine by <code>make docs</code>.</p><ul>
HEAD

# page NAME TITLE WORDS…: a measurement whose page is NAME.html. Statuses above 1 tell of the
# result (an objective missed, INVALID), and are no failures.
page() {
	name=$1
	title=$2
	shift 2
	echo "gallery: $title"
	status=0
	nearside "$@" >"$site/said" 2>&1 || status=$?
	if [ $status = 1 ] || [ ! -s "$name.html" ]; then
		echo "gallery: left out: $(tail -n 1 "$site/said")"
		return
	fi
	echo "<li><a href=\"$name.html\">$title</a></li>" >>"$index"
}

page load "A load" load $url -c 64 -d 3s --html load.html
page found "The highest rate that meets its objectives" load $url --find-max 'p99<2ms' --find-precision 10% \
	-c 64 -d 500ms --html found.html
page sweep "Loads by connections and threads" load $url --sweep conns=1,4,16,64,256 --procs 1,2 -d 500ms \
	--html sweep.html
page bulk "Streams without end" load $url --bulk up -c 4 -d 3s --interval 200ms --html bulk.html
page streams "Streams that are to have a rate" load $url --stream 1Mbit -c 4 -d 3s --html streams.html
# A wire of shared memory, from the tester to itself.
near=--link=memif:@gallery,role=server
far=--link=memif:@gallery,role=client
page frames "Packets over shared memory" packet load $near $far --probe=76B --background=64B:20k -d 3s \
	--html frames.html
page latency "Latency beside a background" packet latency $near $far --rates 0,5k -d 1s --html latency.html
page search "Rates that a device bears" packet search $near $far --stream 64 --goal ndr --trial 50ms,100ms \
	--width 10% --trials 12 --drain 10ms --late-limit 5% --html search.html
# A forwarder between two wires, and the tester at their other ends.
(
	sleep 1
	nearside packet load --link=memif:@gallery-in,role=client --link=memif:@gallery-out,role=client --probe=76B \
		--background=64B:20k -d 3s >/dev/null 2>&1 || true
) &
page forward "A forwarder" packet forward --link=memif:@gallery-in,role=server --link=memif:@gallery-out,role=server \
	--mode io -d 6s --html forward.html
page rfc2544 "RFC 2544, in short" packet rfc2544 $near $far --quick \
	--trial 200ms --test throughput,latency,loss --drain 50ms --settle 0s --late-limit 5% --html rfc2544.html
page zero-loss "Zero loss: a probe beside a background" packet run zero-loss --rate 5k --alone 1s -d 3s \
	--noise 0s --html zero-loss.html
page devices "Devices compared" packet lab -d 500ms --trials 12 --late-limit 5% --html devices.html
page factors "A device's settings, one changed at a time" packet sweep --factor burst=32,8 --rounds 5 -d 200ms \
	--html factors.html
page noise "What takes busy cores' time" node noise --cores 0 --for 3s --html noise.html
page watch "A machine over time" watch -n 20 -i 200ms --line --record watch.ndjson --html watch.html
page audit "Settings judged" node audit --html audit.html
page topology "The machine's topology" numa --topology --html topology.html
page budget "What a rate costs a machine" numa --budget 190G --tls --disk --published cascade-lake --html budget.html
nearside load $url -c 64 -d 3s --html again.html >/dev/null 2>&1 || true
page compared "Two loads compared" lab compare load.html again.html --html compared.html
rm -f again.html
nearside lab run accept-order --out experiment >/dev/null 2>&1 || true
if [ -s experiment/report.html ]; then
	echo '<li><a href="experiment/report.html">An experiment of the lab</a></li>' >>"$index"
fi
echo "</ul></body></html>" >>"$index"

if command -v chromium >/dev/null; then
	# Those that say the same whichever build made them: README shows them, from docs/pictures.
	for name in budget watch audit experiment/report; do
		[ -s "$name.html" ] || continue
		picture=$folder/${name%/report}.png
		chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$site/chromium" \
			--window-size=900,1150 --screenshot="$picture" "file://$folder/$name.html" \
			>/dev/null 2>&1 || true
	done
else
	echo "gallery: chromium is not installed here: no pictures"
fi
echo "$(ls "$folder"/*.html | wc -l) pages in $folder"
