# A copy of the repository in ~/clone, to install from, and pipx. Uses the package index of this machine.
mkdir ~/clone && cd ~/clone
(cd "$REPOSITORY" && git ls-files -z | grep -zv '^tests/' | tar c --null -T -) | tar x
python3 -m venv ~/.pipx && ~/.pipx/bin/pip install --quiet pipx && mkdir -p ~/.local/bin && ln -s ~/.pipx/bin/pipx ~/.local/bin/
export PATH=~/.local/bin:$PATH
