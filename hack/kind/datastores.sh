# The data stores under test: programs that run on this host, and images under the names that
# the operator uses by default. etcd is built from its Go modules; Redis and Valkey are
# Debian's builds (with TLS), reduced to the programs, their shared libraries and CA certificates.
# shellcheck shell=bash
# shellcheck disable=SC2154 # $here is set by kind.sh

datastore_keys=(ETCD_3_5 ETCD_3_6 ETCD_3_7 REDIS_7_0 REDIS_8_0 VALKEY_8_1 VALKEY_9_1)

datastores_env() { printf '%s\n' "$QUORATE_CACHE/images/datastores.env"; }
servers_dir() { printf '%s\n' "$QUORATE_CACHE/servers"; }

# engine_of KEY: REDIS_7_0 -> redis
engine_of() {
  local name=${1%%_*}
  printf '%s\n' "${name,,}"
}

# store_dir KEY is keyed by the version wanted; the file `version` in it tells the truth.
store_dir() {
  local suite=${1}_SUITE
  printf '%s\n' "$QUORATE_CACHE/stores/$(engine_of "$1")-${!1}-${!suite}"
}

# actual_version KEY prints the version that was really built.
actual_version() {
  case $1 in
    ETCD_*) printf '%s\n' "${!1}" ;;
    *) cat "$(store_dir "$1")/version" ;;
  esac
}

# default_image KEY VERSION prints the operator's default image of a version.
default_image() {
  case $1 in
    ETCD_*) printf 'quay.io/coreos/etcd:v%s\n' "$2" ;;
    REDIS_*) printf 'docker.io/library/redis:%s\n' "$2" ;;
    VALKEY_*) printf 'docker.io/valkey/valkey:%s\n' "$2" ;;
  esac
}

# image_of KEY prints the default image for what was built.
image_of() { default_image "$1" "$(actual_version "$1")"; }

# --- programs ----------------------------------------------------------------------------------

# keep_programs OUT TREE BIN ENGINE copies the engine's programs from the directory BIN of a
# tree, with the libraries they load.
keep_programs() {
  local out=$1 tree=$2 bin=$3 engine=$4 name
  mkdir -p "$out/programs" "$out/lib"
  for name in server cli benchmark check-aof check-rdb; do
    # -L: some of these are links to one program that looks at the name it was called by.
    cp -L "$tree/$bin/$engine-$name" "$out/programs/"
  done
  cp -L "$(tree_loader "$tree")" "$out/lib/"
  for name in "$out"/programs/*; do tree_libraries "$tree" "$name"; done |
    sort -u | xargs cp -L -t "$out/lib/"
}

store_from_debian() {
  local out=$1 engine suite=${2}_SUITE tree=$1.tree
  engine=$(engine_of "$2")
  debian_tree "$tree" "${!suite}" "$engine-server" "$engine-tools"
  keep_programs "$out" "$tree" usr/bin "$engine"
  tree_version "$tree" "$engine-tools" >"$out/version"
  rm -rf "$tree"
}

# store_from_image takes the programs out of the public image, on systems without Debian's packages.
store_from_image() {
  local out=$1 key=$2 tree=$1.tree container
  container=$(docker create "$(default_image "$key" "${!key}")")
  mkdir -p "$tree"
  docker export "$container" | tar -x --no-same-owner -C "$tree"
  docker rm "$container"
  keep_programs "$out" "$tree" usr/local/bin "$(engine_of "$key")"
  printf '%s\n' "${!key}" >"$out/version"
  rm -rf "$tree"
}

# fetch_store OUT KEY
fetch_store() {
  local suite=${2}_SUITE
  if is_debian; then
    step "fetch $(engine_of "$2") from Debian ${!suite}"
    logged "fetch-$2" store_from_debian "$@"
  else
    need docker "install Docker (https://docs.docker.com/engine/install/): the programs are taken out of public images"
    step "fetch $(engine_of "$2") from $(default_image "$2" "${!2}")"
    logged "fetch-$2" store_from_image "$@"
  fi
}

# wrap_programs OUT STORE makes programs that run on this host with the libraries of their own
# suite, through its own loader.
wrap_programs() {
  local out=$1 store=$2 loader program name
  mkdir -p "$out/bin"
  cp -a "$store/lib" "$store/programs" "$out/"
  loader=$(basename "$(echo "$out"/lib/ld-linux*)")
  for program in "$out"/programs/*; do
    name=${program##*/}
    cat >"$out/bin/$name" <<SH
#!/bin/sh
# exec: the process keeps its id, so that a test that kills it kills the server.
here=\$(dirname "\$(readlink -f "\$0")")/..
exec "\$here/lib/$loader" --inhibit-cache --library-path "\$here/lib" --argv0 $name "\$here/programs/$name" "\$@"
SH
    chmod 0755 "$out/bin/$name"
  done
}

wrap_etcd() {
  mkdir -p "$1/bin"
  ln "$(etcd_dir "$2")"/* "$1/bin/"
}

ensure_store() {
  local key=$1 engine suite=${1}_SUITE actual
  engine=$(engine_of "$key")
  cached "$(store_dir "$key")" fetch_store "$key"
  actual=$(actual_version "$key")
  [[ $actual == "${!key}" ]] ||
    warn "Debian ${!suite} now has $engine $actual, not ${!key}: $key=$actual is what is built and tested"
  cached "$(servers_dir)/$engine-$actual" wrap_programs "$(store_dir "$key")"
}

# write_datastores_env publishes the versions that were really built, under the keys of
# hack/versions.env.
write_datastores_env() {
  local key file
  file=$(datastores_env)
  mkdir -p "${file%/*}"
  {
    printf '# Written by hack/kind: the data-store versions that were really built.\n'
    for key in "${datastore_keys[@]}"; do printf '%s=%s\n' "$key" "$(actual_version "$key")"; done
  } >"$file.$BASHPID"
  mv "$file.$BASHPID" "$file"
}

# ensure_servers makes $QUORATE_CACHE/servers/<engine>-<version>/bin for every data store.
ensure_servers() {
  local key
  for key in "${datastore_keys[@]}"; do
    case $key in
      ETCD_*)
        ensure_etcd "${!key}"
        cached "$(servers_dir)/etcd-${!key}" wrap_etcd "${!key}"
        ;;
      *) ensure_store "$key" ;;
    esac
  done
  write_datastores_env
}

# --- images ------------------------------------------------------------------------------------

# image_etcd_root ROOT VERSION: like the official image, the three programs and no shell.
image_etcd_root() {
  install -D -m 0755 -t "$1/usr/local/bin" "$(etcd_dir "$2")"/*
}

# image_store_root ROOT STORE: programs, libraries where their loader looks for them, a
# busybox shell as the official images have one, /data for anyone.
image_store_root() {
  local root=$1 store=$2 loader name
  merged_usr "$root"
  mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs" "$root/data" "$root/tmp"
  cp -a "$store"/programs/* "$root/usr/local/bin/"
  cp -a "$store"/lib/* "$root/usr/lib/"
  # The loader's path is part of every program and differs between processors.
  for loader in "$root"/usr/lib/ld-linux*; do ln -s "../lib/${loader##*/}" "$root/usr/lib64/"; done
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
  printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
  install -m 0755 "$(command -v busybox)" "$root/usr/bin/busybox"
  for name in sh cat cp df env grep head id kill ls mkdir mv nc nslookup ps rm sleep stat tail timeout wget; do
    ln -s busybox "$root/usr/bin/$name"
  done
  chmod 1777 "$root/tmp"
  chmod 0777 "$root/data"
}

# build_datastore_images TAR makes every image in the engine and saves them into one archive.
build_datastore_images() {
  local tar=$1 key image root images=()
  need_debian "Data-store images"
  apt_install busybox-static ca-certificates
  for key in "${datastore_keys[@]}"; do
    image=$(image_of "$key")
    step "image $image"
    root=$(scratch root)
    case $key in
      ETCD_*)
        image_etcd_root "$root" "$(actual_version "$key")"
        import_image "$root" "$image" 'CMD ["/usr/local/bin/etcd"]' 'EXPOSE 2379 2380'
        ;;
      *)
        image_store_root "$root" "$(store_dir "$key")"
        import_image "$root" "$image" "CMD [\"$(engine_of "$key")-server\"]" 'EXPOSE 6379' 'WORKDIR /data'
        ;;
    esac
    rm -rf "$root"
    images+=("$image")
  done
  docker save -o "$tar" "${images[@]}"
}

datastore_images_tar() {
  printf '%s\n' "$QUORATE_CACHE/images/datastores-$(cat "$(datastores_env)" "$here/datastores.sh" | digest).tar"
}

ensure_datastore_images() {
  ensure_servers
  cached "$(datastore_images_tar)" build_datastore_images
  find "$QUORATE_CACHE/images" -maxdepth 1 -name 'datastores-*.tar' ! -path "$(datastore_images_tar)" -delete
}

# load_datastore_images gives back to the engine what it lost.
load_datastore_images() {
  local key
  for key in "${datastore_keys[@]}"; do
    if ! image_exists "$(image_of "$key")"; then
      step "load the data-store images from the cache"
      docker load -q -i "$(datastore_images_tar)" >/dev/null
      return
    fi
  done
}

# pull_datastore_images: where a registry answers, the same names are the public images.
pull_datastore_images() {
  local key
  for key in "${datastore_keys[@]}"; do
    step "pull $(default_image "$key" "${!key}")"
    docker pull -q "$(default_image "$key" "${!key}")" >&2
  done
}

# write_public_datastores_env: public images exist in every version that versions.env asks for.
write_public_datastores_env() {
  local key file
  file=$(datastores_env)
  mkdir -p "${file%/*}"
  {
    printf '# Written by hack/kind: the versions of the public images.\n'
    for key in "${datastore_keys[@]}"; do printf '%s=%s\n' "$key" "${!key}"; done
  } >"$file.$BASHPID"
  mv "$file.$BASHPID" "$file"
}
