# The node image where no registry answers: Debian, what kind's own base image adds to it, the
# programs of kubernetes.sh, and the component images already inside its containerd. Two stages:
# node-base (slow, changes with the Kubernetes version) and node (node-base + data-store images).
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of kind.sh and the other parts

# Bookworm and not a later suite: its systemd is the last that boots on cgroup v1.
node_suite=bookworm
node_packages=systemd,systemd-sysv,dbus,conntrack,iptables,nftables,iproute2,ethtool,mount,kmod,libseccomp2,pigz,e2fsprogs,ca-certificates,curl,jq,procps,containernetworking-plugins,runc,socat

node_rootfs_tar() { printf '%s\n' "$QUORATE_CACHE/images/rootfs-$node_suite-$(digest <<<"$node_packages").tar"; }

# The keys say what goes in; a change to the files that build it is a change of the image.
node_base_key() {
  {
    printf '%s\n' "$KUBERNETES_VERSION" "$KIND_VERSION" "$CONTAINERD_VERSION" "$COREDNS_VERSION" \
      "$LOCAL_PATH_VERSION" "$ETCD_3_6" "$node_packages"
    cat "$here/nodeimage.sh" "$here"/node/*
  } | digest
}

node_base_image() { printf 'quorate-node-base:%s-%s\n' "$KUBERNETES_VERSION" "$(node_base_key)"; }
node_image() {
  local datastores
  datastores=$(datastore_images_tar)
  printf 'quorate-node:%s-%s\n' "$KUBERNETES_VERSION" \
    "$(printf '%s\n' "$(node_base_key)" "${datastores##*/}" | digest)"
}
# image_tar IMAGE prints the file that keeps an image when the engine loses it.
image_tar() { printf '%s\n' "$QUORATE_CACHE/images/${1/:/-}.tar"; }

# --- root file system --------------------------------------------------------------------------

build_node_rootfs() {
  local tar=$1 dir
  need_root "debootstrap"
  step "debootstrap $node_suite for the nodes (about 2 minutes)"
  dir=$(scratch rootfs)
  logged debootstrap-node debootstrap --variant=minbase --include="$node_packages" \
    "$node_suite" "$dir" "$(debian_mirror)"
  rm -rf "$dir"/var/cache/apt/archives/*.deb "$dir"/var/lib/apt/lists/* "$dir"/usr/share/{doc,man,locale}/*
  tar -C "$dir" --one-file-system -c . -f "$tar"
  rm -rf "$dir"
}

# --- component images --------------------------------------------------------------------------

# component_images prints "NAME IMAGE" for what kubeadm wants, e.g. "etcd registry.k8s.io/etcd:3.6.8-0".
component_images() {
  local image name
  "$(kubernetes_dir)/kubeadm" config images list --kubernetes-version "$KUBERNETES_VERSION" 2>/dev/null |
    while read -r image; do
      name=${image##*/}
      printf '%s %s\n' "${name%%:*}" "$image"
    done
}

# kind_constant NAME prints a string constant of kind's storage source.
kind_constant() { sed -n "s/^const $1 = \"\(.*\)\"/\1/p" "$(kind_source)/pkg/build/nodeimage/const_storage.go"; }

kind_source() { module_dir "sigs.k8s.io/kind@$KIND_VERSION"; }

# storage_manifest prints kind's manifest of the default storage class.
storage_manifest() {
  # shellcheck disable=SC2016 # the backquotes are Go's
  sed -n '/^const defaultStorageManifest = `/,/^`/{//d;p}' "$(kind_source)/pkg/build/nodeimage/const_storage.go" |
    sed "s|\` + storageProvisionerImage + \`|$(kind_constant storageProvisionerImage)|
         s|\` + storageHelperImage + \`|$(kind_constant storageHelperImage)|"
}

# binary_image IMAGE BINARY... makes an image of nothing but static programs.
binary_image() {
  local image=$1 root
  shift
  root=$(scratch root)
  install -D -m 0755 -t "$root/usr/local/bin" "$@"
  import_image "$root" "$image" "ENTRYPOINT [\"/usr/local/bin/${1##*/}\"]"
  rm -rf "$root"
}

# kube-proxy drives the kernel through Debian's iptables.
proxy_image() {
  local image=$1 root name
  root=$(scratch root)
  debian_tree "$root" "$node_suite" iptables kmod conntrack
  rm -rf "$root"/usr/share/{doc,man,locale,perl*} "$root"/usr/lib/*/perl*
  # No maintainer script made the links of the alternatives system.
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -sf xtables-nft-multi "$root/usr/sbin/$name"
  done
  install -D -m 0755 -t "$root/usr/local/bin" "$(kubernetes_dir)/kube-proxy"
  import_image "$root" "$image" 'ENTRYPOINT ["/usr/local/bin/kube-proxy"]'
  rm -rf "$root"
}

# The helper is a shell that makes and removes the directories of volumes.
storage_helper_image() {
  local image=$1 root name
  root=$(scratch root)
  install -D -m 0755 "$(command -v busybox)" "$root/bin/busybox"
  for name in sh mkdir rm; do ln -s busybox "$root/bin/$name"; done
  import_image "$root" "$image" 'CMD ["/bin/sh"]'
  rm -rf "$root"
}

component_image() {
  local name=$1 image=$2
  case $name in
    kube-proxy) proxy_image "$image" ;;
    kube-*) binary_image "$image" "$(kubernetes_dir)/$name" ;;
    coredns) binary_image "$image" "$(coredns_dir)/coredns" ;;
    pause) binary_image "$image" "$(pause_dir)/pause" ;;
    etcd) binary_image "$image" "$(etcd_dir "$ETCD_3_6")"/{etcd,etcdctl,etcdutl} ;;
    *) die "kubeadm $KUBERNETES_VERSION wants an image that hack/kind cannot build: $image" "add it to hack/kind/nodeimage.sh" ;;
  esac
}

# build_component_images TAR saves all images of the control plane and the storage class.
build_component_images() {
  local tar=$1 name image images=()
  while read -r name image; do
    component_image "$name" "$image"
    images+=("$image")
  done < <(component_images)
  image=$(kind_constant storageProvisionerImage)
  binary_image "$image" "$(local_path_dir)/local-path-provisioner"
  images+=("$image")
  image=$(kind_constant storageHelperImage)
  storage_helper_image "$image"
  docker save -o "$tar" "${images[@]}" "$image"
}

# --- what kind's base image adds to Debian -----------------------------------------------------

copy_kind_files() {
  local root=$1 files
  files=$(kind_source)/images/base/files
  cp -r --no-preserve=mode,ownership "$files"/{etc,kind,usr} "$root/"
  chmod 0755 "$root"/usr/local/bin/* "$root"/kind/bin/*
}

# configure_systemd does what the RUN lines of kind's Dockerfile do.
configure_systemd() {
  local root=$1
  find "$root/lib/systemd/system/sysinit.target.wants" -name systemd-tmpfiles-setup.service -delete
  rm -f "$root"/lib/systemd/system/multi-user.target.wants/* "$root"/etc/systemd/system/*.wants/* \
    "$root"/lib/systemd/system/local-fs.target.wants/* "$root"/lib/systemd/system/sockets.target.wants/*udev* \
    "$root"/lib/systemd/system/sockets.target.wants/*initctl* "$root"/lib/systemd/system/basic.target.wants/*
  echo "ReadKMsg=no" >>"$root/etc/systemd/journald.conf"
  ln -sf /usr/lib/systemd/systemd "$root/sbin/init"
  chroot "$root" systemctl enable kubelet containerd undo-mount-hacks quorate-pod-network
  chroot "$root" systemctl mask systemd-binfmt
}

configure_containerd() {
  local root=$1 pause
  pause=$(component_images | sed -n 's/^pause //p')
  chroot "$root" ctr oci spec |
    jq '.hooks.createContainer[.hooks.createContainer | length] |= . + {path: "/kind/bin/mount-product-files.sh"}
        | del(.process.rlimits)' >"$root/etc/containerd/cri-base.json"
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc cannot lower the score and dies.
  sed -i "s|sandbox_image = .*|sandbox_image = \"$pause\"|; s|restrict_oom_score_adj = false|restrict_oom_score_adj = true|" \
    "$root/etc/containerd/config.toml"
}

install_programs() {
  local root=$1
  install -D -m 0755 -t "$root/usr/bin" "$(kubernetes_dir)"/{kubelet,kubeadm,kubectl}
  install -D -m 0755 -t "$root/usr/local/bin" "$(containerd_dir)"/* "$here/node/quorate-pod-network"
  install -D -m 0755 -t "$root/opt/cni/bin" "$root"/usr/lib/cni/{host-local,loopback,ptp,portmap}
  rm -rf "$root/usr/lib/cni"
  install -D -m 0644 -t "$root/etc/systemd/system" "$here/node/quorate-pod-network.service"
}

fill_node_root() {
  local root=$1
  tar -C "$root" -x -f "$(node_rootfs_tar)"
  copy_kind_files "$root"
  install_programs "$root"
  configure_systemd "$root"
  configure_containerd "$root"
  mkdir -p "$root/etc/kubernetes/manifests" "$root/kind/manifests" "$root/etc/cni/net.d"
  printf '%s' "$KUBERNETES_VERSION" >"$root/kind/version"
  storage_manifest >"$root/kind/manifests/default-storage.yaml"
}

# build_bare_node IMAGE: everything but the images inside.
build_bare_node() {
  local image=$1 root
  root=$(scratch root)
  fill_node_root "$root"
  import_image "$root" "$image" 'ENV container=docker' 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
  rm -rf "$root"
  # `docker import` cannot set the signal on which systemd shuts down.
  printf 'FROM %s\nSTOPSIGNAL SIGRTMIN+3\n' "$image" | DOCKER_BUILDKIT=0 docker build -q -t "$image" -
}

# --- stages ------------------------------------------------------------------------------------

# preloader names the container of preload after the cache, for a run on another cache may be at work; `exclusively` allows
# one on each. Not a label: docker commit would put it on the image, and so on the nodes of the cluster.
preloader() { printf 'quorate-preload-%s\n' "$(digest <<<"$QUORATE_CACHE")"; }

remove_preloader() { docker rm -f -v "$(preloader)" 2>/dev/null || true; }

# preload FROM TAR TO commits image FROM with the images of TAR in its containerd as image TO.
preload() (
  from=$1 tar=$2 to=$3
  # A killed run had no time to clean up.
  remove_preloader
  trap remove_preloader EXIT
  container=$(docker run -d --privileged --name "$(preloader)" --entrypoint sleep "$from" infinity)
  docker exec -d "$container" containerd
  docker exec "$container" timeout 60 bash -c 'until ctr version >/dev/null 2>&1; do sleep 0.2; done'
  docker exec -i "$container" ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned \
    --all-platforms --no-unpack --digests - <"$tar"
  docker exec "$container" bash -c 'pkill -x containerd; while pgrep -x containerd >/dev/null; do sleep 0.2; done'
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' "$container" "$to"
)

build_node_base() {
  local image=$1 tar
  tar=$(scratch components)/images.tar
  build_component_images "$tar"
  build_bare_node "${image/base:/bare:}"
  preload "${image/base:/bare:}" "$tar" "$image"
  rm -rf "${tar%/*}"
  component_images | cut -d' ' -f2 | xargs docker image rm
}

# keep_image TAR IMAGE saves an image so that it outlives the engine's own storage.
keep_image() { docker save -o "$1" "$2"; }

# ensure_image IMAGE BUILDER...: from the engine, else from the cache folder, else built.
ensure_image() {
  local image=$1 tar
  shift
  tar=$(image_tar "$image")
  if ! image_exists "$image"; then
    if [[ -e $tar ]]; then
      step "load $image from the cache"
      docker load -q -i "$tar" >/dev/null
    else
      "$@"
    fi
  fi
  cached "$tar" keep_image "$image"
  drop_older "$image"
}

# drop_older IMAGE removes earlier builds of the same name and their archives: each takes over a gigabyte.
drop_older() {
  local image=$1 name=${1%%:*} old
  while read -r old; do
    if [[ -n $old && $old != "$image" ]]; then docker image rm "$old" >/dev/null 2>&1 || true; fi
  done < <(docker image ls --format '{{.Repository}}:{{.Tag}}' "$name")
  find "$QUORATE_CACHE/images" -maxdepth 1 -name "$name-v*.tar" ! -path "$(image_tar "$image")" -delete
}

stage_base() {
  local image=$1 rootfs
  need_debian "The node image"
  apt_install debootstrap busybox-static ca-certificates jq
  # One waits for the network, the other for the processor.
  cached "$(node_rootfs_tar)" build_node_rootfs &
  rootfs=$!
  ensure_node_programs
  wait "$rootfs"
  step "build the node image, stage 1: Kubernetes $KUBERNETES_VERSION"
  logged node-base build_node_base "$image"
}

stage_datastores() {
  local image=$1
  ensure_image "$(node_base_image)" stage_base "$(node_base_image)"
  step "build the node image, stage 2: data-store images"
  logged node-datastores preload "$(node_base_image)" "$(datastore_images_tar)" "$image"
}

ensure_node_image() {
  ensure_datastore_images
  ensure_image "$(node_image)" stage_datastores "$(node_image)"
}
