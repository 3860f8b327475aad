#!/usr/bin/env bash
# A provider for Muster in bash. Its machines are processes of this machine, one directory each.
#
#   [command.local]
#   executable = "/path/to/processes.sh"
#   config = { directory = "/var/tmp/machines" }
#
# Copy it, and replace start, alive, end and said with commands of yours (ssh HOST …, virsh …, a cloud's CLI).
# It makes one machine per call and is not idempotent, so Muster lists before it launches.
set -euo pipefail
asked=$(cat)
field() { # field PYTHON: print an expression over the request
  python3 -c 'import json, sys; asked = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$asked" "$1"
}
root=$(field 'asked["config"].get("directory", "/var/tmp/muster-machines")')
mkdir -p "$root"

start() { # start NAME SCRIPT
  mkdir "$root/$1"
  printf '%s\n' "$2" >"$root/$1/script"
  chmod 600 "$root/$1/script"
  MUSTER_MACHINE_DIR="$root/$1" MUSTER_POWEROFF='kill -9 0' \
    setsid flock "$root/$1/lock" bash "$root/$1/script" </dev/null >"$root/$1/console" 2>&1 &
  echo $! >"$root/$1/pid"
}
alive() { ! flock --nonblock "$root/$1/lock" true; }
end() { alive "$1" && kill -9 -- "-$(cat "$root/$1/pid")" || true; }
said() { tail -n "$2" "$root/$1/console"; }

known() { [[ $1 != */* && -e $root/$1/pid ]]; }
machine() { # machine NAME: print it as JSON
  printf '{"id":"%s","name":"%s","state":"%s"}' "$1" "$1" "$(alive "$1" && echo running || echo gone)"
}
machines() { # machines NAME...: print those that are known
  local found=() name
  for name; do if known "$name"; then found+=("$(machine "$name")"); fi; done
  (IFS=,; printf '{"machines":[%s]}' "${found[*]-}")
}

case ${!#} in
hello)
  echo '{"protocols":[1],"name":"processes in bash","features":["console"],"visibility_window":0}'
  ;;
launch)
  name=$(field 'asked["machines"][0]["name"]')
  start "$name" "$(field 'asked["machines"][0]["user_data"]')"
  machines "$name"
  ;;
list)
  prefix=$(field 'asked["prefix"]') found=()
  for place in "$root/$prefix"*/pid; do
    name=$(basename "$(dirname "$place")")
    if known "$name" && alive "$name"; then found+=("$name"); fi
  done
  machines "${found[@]-}"
  ;;
describe) machines $(field '" ".join(asked["ids"])') ;;
terminate)
  for name in $(field '" ".join(asked["ids"])'); do if known "$name"; then end "$name"; fi; done
  echo '{}'
  ;;
console)
  name=$(field 'asked["id"]')
  text=$(if known "$name"; then said "$name" "$(field 'asked["lines"]')"; fi)
  python3 -c 'import json, sys; print(json.dumps({"text": sys.argv[1] or None}))' "$text"
  ;;
*) exit 64 ;;
esac
