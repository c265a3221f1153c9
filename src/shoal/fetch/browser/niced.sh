#!/bin/sh
# Starts the browser at a low priority, so that plain pages come first. As root it would give itself a higher one:
# it is not allowed to.
# Its socket goes into the profile, which is removed however the browser ends, unless the name would be too long for one.
for word; do
  case $word in
    --user-data-dir=*) [ ${#word} -gt 76 ] || export TMPDIR="${word#*=}" ;;
  esac
done
set -- "$SHOAL_CHROMIUM" "$@"
unset SHOAL_CHROMIUM
if [ "$(id -u)" = 0 ] && setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice true 2>/dev/null; then
  set -- setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice -- "$@"
fi
exec nice -n 10 "$@"
