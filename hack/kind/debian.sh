# Debian packages: the mirror that this machine already uses, packages for the host, and
# packages of any suite unpacked into a directory without installing anything.
# shellcheck shell=bash

is_debian() { [[ -r /etc/os-release ]] && (. /etc/os-release && [[ ${ID:-} == debian ]]); }

need_debian() {
  is_debian || die "$1 can only be made from Debian's packages on Debian" \
    "on other systems install Docker (https://docs.docker.com/engine/install/) and let it reach a registry: then public images are used"
}

need_root() {
  [[ $EUID -eq 0 ]] || die "$1 needs root" "run the command as root, or install and start Docker yourself"
}

# debian_mirror prints where the host's own apt takes its suite from.
debian_mirror() {
  local codename mirror
  codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format "\$(RELEASE) \$(COMPONENT) \$(REPO_URI)" 'Created-By: Packages' |
    awk -v release="$codename" '$1 == release && $2 == "main" { print $3; exit }')
  [[ -n $mirror ]] || die "apt knows no mirror for $codename main" \
    "add one to /etc/apt/sources.list and run apt-get update"
  printf '%s\n' "${mirror%/}"
}

# apt_install PACKAGE... installs what is missing on the host.
apt_install() {
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  need_root "installing ${missing[*]}"
  step "apt-get install ${missing[*]}"
  logged apt-update apt-get update
  logged apt-install env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# --- other suites ------------------------------------------------------------------------------

# apt_in HOME COMMAND... runs apt-get with its whole state in HOME, believing that nothing is
# installed, so that downloads come with all their dependencies.
apt_in() {
  local home=$1
  shift
  # Valid-Until: a mirror may serve a frozen testing suite; signatures are still checked.
  apt-get -o Dir="$home" \
    -o Dir::State::status=/dev/null -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
    -o APT::Install-Recommends=false -o Debug::NoLocking=true "$@"
}

# apt_home HOME SUITE prepares that state for one suite of the host's mirror.
apt_home() {
  local home=$1 suite=$2
  mkdir -p "$home/etc/apt/apt.conf.d" "$home/etc/apt/preferences.d" \
    "$home/var/lib/apt/lists/partial" "$home/var/cache/apt/archives/partial"
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
    "$(debian_mirror)" "$suite" >"$home/etc/apt/sources.list"
}

# merged_usr DIR makes the empty directory tree that packages of a merged-/usr Debian expect.
merged_usr() {
  local name
  for name in bin sbin lib lib64; do
    mkdir -p "$1/usr/$name"
    ln -s "usr/$name" "$1/$name"
  done
}

# debian_tree TREE SUITE PACKAGE... unpacks packages and their dependencies into TREE. Nothing
# is configured and no maintainer script runs, which is all that plain programs need.
# TREE/packages lists each package with its version.
debian_tree() {
  local tree=$1 suite=$2 home deb
  shift 2
  home=$(scratch apt)
  apt_home "$home" "$suite"
  apt_in "$home" update
  apt_in "$home" install --yes --download-only "$@"
  mkdir -p "$tree"
  merged_usr "$tree"
  for deb in "$home"/var/cache/apt/archives/*.deb; do
    dpkg-deb --show "$deb" >>"$tree/packages"
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink --no-same-owner -C "$tree"
  done
  rm -rf "$home"
}

# tree_version TREE PACKAGE prints the upstream version of a package in a tree: without epoch,
# packaging suffix (+dfsg, ~rc) and Debian revision.
tree_version() {
  awk -v package="$2" '$1 == package { print $2 }' "$1/packages" | sed 's/^[0-9]*://; s/[-+~].*//'
}

# tree_loader TREE prints the dynamic loader of a tree.
tree_loader() {
  local loader
  for loader in "$1"/usr/lib64/ld-linux*.so.* "$1"/usr/lib/ld-linux*.so.*; do
    if [[ -e $loader ]]; then
      printf '%s\n' "$loader"
      return
    fi
  done
  die "no dynamic loader in $1"
}

# tree_libraries TREE PROGRAM prints the files of all shared libraries that a program of the
# tree loads, by asking the tree's own loader; the host's libraries never count.
tree_libraries() {
  local path
  path=$(find "$1/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
  "$(tree_loader "$1")" --inhibit-cache --library-path "$path" --list "$2" |
    sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
}
