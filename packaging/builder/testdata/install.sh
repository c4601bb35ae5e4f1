# install.sh ADDRESS, as root of a machine that may be broken: the life of the package. /pkg has a release candidate, the
# release, and the unit. The last line is "all well".
address=$1
here() { echo "--- $*"; }
die() { echo "FAILED: $*"; exit 1; }
owned() { [ "$(stat -c '%a %U %G' "$2")" = "$1" ] || die "$2 is $(stat -c '%a %U %G' "$2"), want $1"; }

here install
dpkg -i /pkg/vmcp_0.9.1-rc.1_linux_*.deb
getent passwd vmcp | grep -q ':/var/lib/vmcp:/usr/sbin/nologin$' || die "no user vmcp"
owned "750 root vmcp" /etc/vmcp
owned "640 root vmcp" /etc/vmcp/vmcp.yaml
owned "640 root vmcp" /etc/vmcp/vmcp.env
owned "750 vmcp vmcp" /var/lib/vmcp
! systemctl is-enabled vmcp || die "installed and enabled"
systemctl enable vmcp
cmp /pkg/vmcp.service /usr/lib/systemd/system/vmcp.service

# as_service COMMAND...: runs a command as the unit says: user, folder, environment, no privileges.
as_service() {
	cd /var/lib/vmcp
	setpriv --reuid=vmcp --regid=vmcp --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
		env -i HOME=/var/lib/vmcp PATH=/usr/local/bin:/usr/bin:/bin "$@"
}
command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/vmcp.service)
reload=$(sed -n 's/^ExecReload=//p' /usr/lib/systemd/system/vmcp.service)

# soon COMMAND...: waits until a command succeeds.
soon() {
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then return 0; fi
		sleep 0.1
	done
	cat /log
	die "never: $*"
}

here "validate and serve as they come"
as_service vmcp validate /etc/vmcp/vmcp.yaml
mkdir /etc/vmcp/tools
cat >/etc/vmcp/tools/hello.star <<'STAR'
tool(name = "hello", description = "Says hello.", parameters = {"type": "object"})
def run(params):
    return {"hello": "world"}
STAR
sed -i "s/^listen: .*/listen: $address/; s/^# scripts:/scripts:/" /etc/vmcp/vmcp.yaml
as_service $command 2>/log &
soon grep -q "serving http://$address/mcp" /log
pid=$(pgrep -u vmcp -x vmcp)
url=http://$address/mcp
[ "$(vmcp call --url $url hello)" = '{"hello":"world"}' ] || die "the call is answered otherwise"

here reload
chmod 0600 /etc/vmcp/vmcp.yaml # which the service cannot read any more
MAINPID=$pid sh -c "$reload"
soon grep -q 'vmcp.yaml.*permission denied' /log
[ "$(vmcp call --url $url hello)" = '{"hello":"world"}' ] || die "a reload that failed has stopped the service"
chmod 0640 /etc/vmcp/vmcp.yaml
sed -i 's/world/reloaded/' /etc/vmcp/tools/hello.star
MAINPID=$pid sh -c "$reload"
is_reloaded() { [ "$(vmcp call --url $url hello)" = '{"hello":"reloaded"}' ]; }
soon is_reloaded

here upgrade
echo 'TOKEN="kept"' >>/etc/vmcp/vmcp.env
dpkg -i /pkg/vmcp_0.9.1_linux_*.deb
[ "$(dpkg-query -W -f '${Version} ${db:Status-Status}' vmcp)" = "0.9.1 installed" ] || die "$(dpkg-query -W vmcp)"
grep -q kept /etc/vmcp/vmcp.env && grep -q "$address" /etc/vmcp/vmcp.yaml || die "an edited file is gone"
owned "640 root vmcp" /etc/vmcp/vmcp.yaml
owned "640 root vmcp" /etc/vmcp/vmcp.env
systemctl is-enabled vmcp || die "an upgrade has disabled the service"

here stop
kill -TERM "$pid"
wait || true
! pgrep -u vmcp || die "processes are left"

here remove
dpkg -r vmcp
[ ! -e /usr/bin/vmcp ] && [ ! -e /usr/lib/systemd/system/vmcp.service ] || die "files are left"
[ -e /etc/vmcp/vmcp.yaml ] && [ -d /var/lib/vmcp ] || die "removed like purged"
[ ! -L /etc/systemd/system/multi-user.target.wants/vmcp.service ] || die "enabled without a unit"

here purge
touch /var/lib/vmcp/runs.db
rm -r /etc/vmcp/tools
dpkg -P vmcp
[ ! -e /var/lib/vmcp ] && [ ! -e /etc/vmcp ] || die "purged, and there is $(ls -d /var/lib/vmcp /etc/vmcp)"
echo
echo "all well"
