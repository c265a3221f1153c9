#!/bin/sh
# Starts the browser at a low priority, so that plain pages come first. As root it would give itself a higher one:
# it is not allowed to.
# Its socket goes into the profile, which is removed however the browser ends, unless the name would be too long for one.
# The pages of its address bar are left out: a window that nobody sees spends most of its processor time on them. They
# go into the list that playwright gives, for of two lists Chromium reads the last alone.
for word; do
  shift
  case $word in
    --user-data-dir=*) [ ${#word} -gt 76 ] || export TMPDIR="${word#*=}" ;;
    --disable-features=*) word="$word,WebUIOmniboxPopup,WebUIOmniboxAimPopup" ;;
  esac
  set -- "$@" "$word"
done
set -- "$SHOAL_CHROMIUM" "$@"
unset SHOAL_CHROMIUM
if [ "$(id -u)" = 0 ] && setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice true 2>/dev/null; then
  set -- setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice -- "$@"
fi
exec nice -n 10 "$@"
