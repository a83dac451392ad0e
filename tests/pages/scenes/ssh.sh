# On a machine (machine.py), as root: ana logs in as `box` on gpu-box. sshd speaks over a pipe, and is on the side of the machine's network.
mkdir -p /run/sshd ~ana/.ssh ~box/.ssh
ssh-keygen -q -t ed25519 -N '' -f ~ana/.ssh/id_ed25519
ssh-keygen -q -t ed25519 -N '' -f ~box/.ssh/host
cp ~ana/.ssh/id_ed25519.pub ~box/.ssh/authorized_keys
cat >~ana/.ssh/config <<'END'
Host gpu-box
User box
StrictHostKeyChecking no
ProxyCommand sudo nsenter --net=/proc/1/ns/net /usr/sbin/sshd -i -f /dev/null -o HostKey=/home/box/.ssh/host -o LogLevel=QUIET -o 'Subsystem=sftp internal-sftp'
END
usermod --password '*' box
chown -R ana: ~ana/.ssh && chown -R box: ~box/.ssh && chown root: ~box/.ssh/host
