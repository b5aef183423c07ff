# Completion of the gnt-* commands for bash; made by: python -m gantry.cli.completion bash

_gantry_names() {
    case $1 in
        instance) gnt-instance list --no-headers -o name ;;
        node) gnt-node list --no-headers -o name ;;
        network) gnt-network list --no-headers -o name ;;
        group) gnt-group list --no-headers -o name ;;
        os) gnt-os list --no-headers ;;
        job) gnt-job list --no-headers -o id ;;
        range) gantry segment range list --no-headers -o uuid ;;
    esac 2>/dev/null
}

_gantry() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local program=${COMP_WORDS[0]##*/} command=${COMP_WORDS[1]} options= values= kind=
    COMPREPLY=()
    [ "$COMP_CWORD" -gt 1 ] || command=
    case "$program $command" in
        'gantry segment') command=${COMP_WORDS[*]:1:COMP_CWORD > 3 ? 3 : COMP_CWORD - 1} ;;
    esac
    case "$program $command" in
        'gnt-cluster ') values='init modify info show show-ispecs-cmd version getmaster master-failover masterfailover master-ping queue watcher redist-conf verify destroy command copyfile verify-disks list-tags add-tags remove-tags search-tags' ;;
        'gnt-cluster init')
            options='--node-name --primary-ip --port --enabled-hypervisors --enabled-disk-templates --defaults -H --hypervisor-parameters --hypervisor --hypervisor-defaults -B --backend-parameters -N --nic-parameters --node-parameters -D --disk-parameters --ipolicy-bounds-specs --ipolicy-disk-templates --ipolicy-vcpu-ratio --ipolicy-spindle-ratio --ipolicy-std-specs -m --mac-prefix -C --candidate-pool-size --max-running-jobs --ipam-hold-time --network-thresholds -I --default-iallocator --default-iallocator-params --vg-name --prealloc-wipe-disks --segment-ranges --segment-fallback --master-netdev -d --debug --reason -h --help'; kind=none
            case $previous in
                --node-name) values=''; kind=none ;;
                --primary-ip) values=''; kind=none ;;
                --port) values=''; kind=none ;;
                --enabled-hypervisors) values=''; kind=none ;;
                --enabled-disk-templates) values=''; kind=none ;;
                --defaults) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor|--hypervisor-defaults) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -N|--nic-parameters) values=''; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                -D|--disk-parameters) values=''; kind=none ;;
                --ipolicy-bounds-specs) values=''; kind=none ;;
                --ipolicy-disk-templates) values=''; kind=none ;;
                --ipolicy-vcpu-ratio) values=''; kind=none ;;
                --ipolicy-spindle-ratio) values=''; kind=none ;;
                --ipolicy-std-specs) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                -C|--candidate-pool-size) values=''; kind=none ;;
                --max-running-jobs) values=''; kind=none ;;
                --ipam-hold-time) values=''; kind=none ;;
                --network-thresholds) values=''; kind=none ;;
                -I|--default-iallocator) values=''; kind=none ;;
                --default-iallocator-params) values=''; kind=none ;;
                --vg-name) values=''; kind=none ;;
                --prealloc-wipe-disks) values='yes no default'; kind=none ;;
                --segment-ranges) values='yes no default'; kind=none ;;
                --segment-fallback) values='yes no default'; kind=none ;;
                --master-netdev) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster modify')
            options='--enabled-hypervisors --enabled-disk-templates --defaults -H --hypervisor-parameters --hypervisor --hypervisor-defaults -B --backend-parameters -N --nic-parameters --node-parameters -D --disk-parameters --ipolicy-bounds-specs --ipolicy-disk-templates --ipolicy-vcpu-ratio --ipolicy-spindle-ratio --ipolicy-std-specs -m --mac-prefix -C --candidate-pool-size --max-running-jobs --ipam-hold-time --network-thresholds -I --default-iallocator --default-iallocator-params --vg-name --prealloc-wipe-disks --segment-ranges --segment-fallback --master-netdev --ipam-driver --ipam-database -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --enabled-hypervisors) values=''; kind=none ;;
                --enabled-disk-templates) values=''; kind=none ;;
                --defaults) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor|--hypervisor-defaults) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -N|--nic-parameters) values=''; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                -D|--disk-parameters) values=''; kind=none ;;
                --ipolicy-bounds-specs) values=''; kind=none ;;
                --ipolicy-disk-templates) values=''; kind=none ;;
                --ipolicy-vcpu-ratio) values=''; kind=none ;;
                --ipolicy-spindle-ratio) values=''; kind=none ;;
                --ipolicy-std-specs) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                -C|--candidate-pool-size) values=''; kind=none ;;
                --max-running-jobs) values=''; kind=none ;;
                --ipam-hold-time) values=''; kind=none ;;
                --network-thresholds) values=''; kind=none ;;
                -I|--default-iallocator) values=''; kind=none ;;
                --default-iallocator-params) values=''; kind=none ;;
                --vg-name) values=''; kind=none ;;
                --prealloc-wipe-disks) values='yes no default'; kind=none ;;
                --segment-ranges) values='yes no default'; kind=none ;;
                --segment-fallback) values='yes no default'; kind=none ;;
                --master-netdev) values=''; kind=none ;;
                --ipam-driver) values='embedded sql'; kind=none ;;
                --ipam-database) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster info'|'gnt-cluster show')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster show-ispecs-cmd')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster version')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster getmaster')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-failover'|'gnt-cluster masterfailover')
            options='--no-voting --yes-do-it --ignore-offline-nodes -d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-ping')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster queue')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster watcher')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster redist-conf')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify')
            options='-v --verbose --error-codes --dry-run --priority -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster destroy')
            options='--yes-do-it -d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster command')
            options='-n --node -g --node-group -M --show-machine-names --failure-only -d --debug --reason -h --help'; kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster copyfile')
            options='-n --node -g --node-group --use-replication-network -d --debug --reason -h --help'; kind=file
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify-disks')
            options='-g --node-group --priority -d --debug --reason -h --help'; kind=none
            case $previous in
                -g|--node-group) values=''; kind=group ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster list-tags')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster add-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster remove-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster search-tags')
            options='--priority -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node ') values='add list list-fields info show modify remove evacuate migrate failover volumes list-storage modify-storage repair-storage list-tags add-tags remove-tags' ;;
        'gnt-node add')
            options='--join-token-file --join-token --primary-ip --port -g --node-group --master-capable --vm-capable --node-parameters --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --join-token-file) values=''; kind=file ;;
                --join-token) values=''; kind=none ;;
                --primary-ip) values=''; kind=none ;;
                --port) values=''; kind=none ;;
                -g|--node-group) values=''; kind=group ;;
                --master-capable) values=''; kind=none ;;
                --vm-capable) values=''; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list')
            options='--no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node info'|'gnt-node show')
            options='-d --debug --reason -h --help'; kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node modify')
            options='-C --master-candidate -D --drained -O --offline --master-capable --vm-capable --node-parameters --auto-promote -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                -C|--master-candidate) values=''; kind=none ;;
                -D|--drained) values=''; kind=none ;;
                -O|--offline) values=''; kind=none ;;
                --master-capable) values=''; kind=none ;;
                --vm-capable) values=''; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node remove')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node evacuate')
            options='-f --force -p --primary-only -s --secondary-only -n --new-secondary -I --iallocator --early-release --ignore-soft-errors --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node migrate')
            options='-f --force -n --node -I --iallocator --non-live --migration-mode --ignore-ipolicy --no-runtime-changes --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node failover')
            options='-f --force -I --iallocator --ignore-consistency --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node volumes')
            options='--no-headers --separator --format --units -o --output -v --verbose -d --debug --reason -h --help'; kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-storage')
            options='-t --storage-type --no-headers --separator --format --units -o --output -v --verbose -d --debug --reason -h --help'; kind=node
            case $previous in
                -t|--storage-type) values='file lvm-pv lvm-vg sharedfile'; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node modify-storage')
            options='--allocatable --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --allocatable) values='yes no'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node repair-storage')
            options='--ignore-consistency --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-tags')
            options='-d --debug --reason -h --help'; kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node add-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node remove-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group ') values='add modify rename assign-nodes evacuate list list-fields info show show-ispecs-cmd remove list-tags add-tags remove-tags' ;;
        'gnt-group add')
            options='--alloc-policy --node-parameters -D --disk-parameters --ipolicy-bounds-specs --ipolicy-disk-templates --ipolicy-vcpu-ratio --ipolicy-spindle-ratio --tags --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --alloc-policy) values='preferred last_resort unallocable'; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                -D|--disk-parameters) values=''; kind=none ;;
                --ipolicy-bounds-specs) values=''; kind=none ;;
                --ipolicy-disk-templates) values=''; kind=none ;;
                --ipolicy-vcpu-ratio) values=''; kind=none ;;
                --ipolicy-spindle-ratio) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group modify')
            options='--alloc-policy --node-parameters -D --disk-parameters --ipolicy-bounds-specs --ipolicy-disk-templates --ipolicy-vcpu-ratio --ipolicy-spindle-ratio --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --alloc-policy) values='preferred last_resort unallocable'; kind=none ;;
                --node-parameters) values=''; kind=none ;;
                -D|--disk-parameters) values=''; kind=none ;;
                --ipolicy-bounds-specs) values=''; kind=none ;;
                --ipolicy-disk-templates) values=''; kind=none ;;
                --ipolicy-vcpu-ratio) values=''; kind=none ;;
                --ipolicy-spindle-ratio) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group rename')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group assign-nodes')
            options='-f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group evacuate')
            options='--to -I --iallocator --early-release --sequential --force-failover --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list')
            options='--no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=group
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group info'|'gnt-group show')
            options='-d --debug --reason -h --help'; kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group show-ispecs-cmd')
            options='-d --debug --reason -h --help'; kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-tags')
            options='-d --debug --reason -h --help'; kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group add-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance ') values='add list list-fields info show modify startup start up shutdown stop down reboot remove console reinstall rename batch-create failover migrate move change-group grow-disk activate-disks deactivate-disks recreate-disks replace-disks list-tags add-tags remove-tags' ;;
        'gnt-instance add')
            options='-t --disk-template -s --os-size --disk --net --no-nics -o --os-type -O --os-parameters --os-parameters-private --os-parameters-secret -n --node -g --node-group -I --iallocator -B --backend-parameters -H --hypervisor-parameters --hypervisor --no-start --no-wait-for-sync --no-install --force-variant --no-conflicts-check --ignore-ipolicy --tags -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                -t|--disk-template) values=''; kind=none ;;
                -s|--os-size) values=''; kind=none ;;
                --disk) values=''; kind=none ;;
                --net) values=''; kind=none ;;
                -o|--os-type) values=''; kind=os ;;
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                --os-parameters-secret) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list')
            options='--no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=instance
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance info'|'gnt-instance show')
            options='-s --static --all --priority -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance modify')
            options='--net --disk -t --disk-template -n --node -I --iallocator -e --ext-params --no-wait-for-sync -B --backend-parameters -H --hypervisor-parameters --hypervisor -O --os-parameters --os-parameters-private --no-conflicts-check -f --force --hotplug --hotplug-if-possible --no-hotplug -m --runtime-memory --offline --online --ignore-ipolicy --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --net) values=''; kind=none ;;
                --disk) values=''; kind=none ;;
                -t|--disk-template) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                -e|--ext-params) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                -m|--runtime-memory) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance startup'|'gnt-instance start'|'gnt-instance up')
            options='-f --force --all --instance --primary --secondary --node --tags --node-tags --pri-node-tags --sec-node-tags --force-multiple -B --backend-parameters -H --hypervisor-parameters --hypervisor --no-remember --paused --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance shutdown'|'gnt-instance stop'|'gnt-instance down')
            options='-f --force --all --instance --primary --secondary --node --tags --node-tags --pri-node-tags --sec-node-tags --force-multiple --timeout --no-remember --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reboot')
            options='--all --instance --primary --secondary --node --tags --node-tags --pri-node-tags --sec-node-tags --force-multiple -t --type --shutdown-timeout --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -t|--type) values='full hard soft'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove')
            options='-f --force --shutdown-timeout --ignore-failures --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance console')
            options='--show-cmd --priority -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reinstall')
            options='-f --force --all --instance --primary --secondary --node --tags --node-tags --pri-node-tags --sec-node-tags --force-multiple -o --os-type --select-os -O --os-parameters --os-parameters-private --os-parameters-secret --force-variant --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -o|--os-type) values=''; kind=os ;;
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                --os-parameters-secret) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance rename')
            options='-f --force --no-ip-check --no-name-check --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance batch-create')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance failover')
            options='-f --force -n --target-node -I --iallocator --ignore-consistency --keep --wait-for-sync --shutdown-timeout --ignore-ipolicy --cleanup --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -n|--target-node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --keep) values='primary secondary'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance migrate')
            options='-f --force -n --target-node -I --iallocator --non-live --migration-mode --allow-failover --ignore-ipolicy --cleanup --no-runtime-changes --ignore-hvversions --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -n|--target-node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance move')
            options='-f --force -n --node --compress --ignore-consistency --shutdown-timeout --ignore-ipolicy --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --compress) values='gzip none'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance change-group')
            options='--to -I --iallocator --early-release --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance grow-disk')
            options='--absolute --no-wait-for-sync --ignore-ipolicy --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance activate-disks')
            options='--wait-for-sync --ignore-size --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance deactivate-disks')
            options='-f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance recreate-disks')
            options='--disk -n --node -I --iallocator --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --disk) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance replace-disks')
            options='-p --on-primary -s --on-secondary -a --auto -n --new-secondary -I --iallocator --disks --early-release --ignore-ipolicy --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --disks) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-tags')
            options='-d --debug --reason -h --help'; kind=instance
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance add-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network ') values='add modify rename connect disconnect list list-fields info show history map export-reservations import-reservations dhcp remove list-tags add-tags remove-tags' ;;
        'gnt-network add')
            options='--subnet --pool --network --gateway --network6 --gateway6 --type --physical-network --segment --project -m --mac-prefix --add-reserved-ips --no-conflicts-check -f --force --tags --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --network) values=''; kind=none ;;
                --gateway) values=''; kind=none ;;
                --network6) values=''; kind=none ;;
                --gateway6) values=''; kind=none ;;
                --type) values=''; kind=none ;;
                --physical-network) values=''; kind=none ;;
                --segment) values=''; kind=none ;;
                --project) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                --add-reserved-ips) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network modify')
            options='--subnet --pool --add-reserved-ips --remove-reserved-ips --gateway --network6 --gateway6 --type --physical-network --segment -m --mac-prefix --no-conflicts-check -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --add-reserved-ips) values=''; kind=none ;;
                --remove-reserved-ips) values=''; kind=none ;;
                --gateway) values=''; kind=none ;;
                --network6) values=''; kind=none ;;
                --gateway6) values=''; kind=none ;;
                --type) values=''; kind=none ;;
                --physical-network) values=''; kind=none ;;
                --segment) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network rename')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network connect')
            options='-N --nic-parameters --no-conflicts-check --dry-run --priority -d --debug --reason -h --help'; kind=network
            case $previous in
                -N|--nic-parameters) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network disconnect')
            options='--dry-run --priority -d --debug --reason -h --help'; kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list')
            options='--no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=network
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network info'|'gnt-network show')
            options='--at -d --debug --reason -h --help'; kind=network
            case $previous in
                --at) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network history')
            options='--address --at --limit --no-headers --separator --format -o --output -d --debug --reason -h --help'; kind=network
            case $previous in
                --address) values=''; kind=none ;;
                --at) values=''; kind=none ;;
                --limit) values=''; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network map')
            options='--subnet --pool -d --debug --reason -h --help'; kind=network
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network export-reservations')
            options='-d --debug --reason -h --help'; kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network import-reservations')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network dhcp')
            options='--for --family --domain --interface --output -d --debug --reason -h --help'; kind=network
            case $previous in
                --for) values='dnsmasq kea'; kind=none ;;
                --family) values='4 6'; kind=none ;;
                --domain) values=''; kind=none ;;
                --interface) values=''; kind=none ;;
                --output) values=''; kind=file ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove')
            options='-f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-tags')
            options='-d --debug --reason -h --help'; kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network add-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove-tags')
            options='--from --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os ') values='list info modify diagnose' ;;
        'gnt-os list')
            options='--no-headers --separator --format --priority -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os info')
            options='--priority -d --debug --reason -h --help'; kind=os
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os modify')
            options='-O --os-parameters --os-parameters-private -H --hypervisor-parameters --hypervisor --hidden --blacklisted --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=os
            case $previous in
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --hidden) values='yes no'; kind=none ;;
                --blacklisted) values='yes no'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os diagnose')
            options='--priority -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup ') values='export import list list-fields remove' ;;
        'gnt-backup export')
            options='-n --node --transport-compression --compress --noshutdown --shutdown-timeout --remove-instance --ignore-remove-failures -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --transport-compression|--compress) values='none gzip gzip-fast gzip-slow zstd lzop'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup import')
            options='--src-node --src-dir -t --disk-template -s --os-size --disk --net --no-nics -o --os-type -O --os-parameters --os-parameters-private --os-parameters-secret -n --node -g --node-group -I --iallocator -B --backend-parameters -H --hypervisor-parameters --hypervisor --no-start --no-wait-for-sync --no-install --force-variant --no-conflicts-check --ignore-ipolicy --tags -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --src-node) values=''; kind=none ;;
                --src-dir) values=''; kind=none ;;
                -t|--disk-template) values=''; kind=none ;;
                -s|--os-size) values=''; kind=none ;;
                --disk) values=''; kind=none ;;
                --net) values=''; kind=none ;;
                -o|--os-type) values=''; kind=os ;;
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                --os-parameters-secret) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup list')
            options='-n --node --no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup remove')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job ') values='list list-fields info show watch wait cancel archive autoarchive change-priority' ;;
        'gnt-job list')
            options='--pending --running --error --finished --archived --no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=job
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job list-fields')
            options='--no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job info'|'gnt-job show')
            options='-d --debug --reason -h --help'; kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job watch')
            options='-d --debug --reason -h --help'; kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job wait')
            options='-d --debug --reason -h --help'; kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job cancel')
            options='-f --force --kill --yes-do-it --pending --queued --waiting -d --debug --reason -h --help'; kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job archive')
            options='-d --debug --reason -h --help'; kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job autoarchive')
            options='-d --debug --reason -h --help'; kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job change-priority')
            options='-f --force --priority --pending --queued --waiting -d --debug --reason -h --help'; kind=job
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug ') values='delay submit-job locks' ;;
        'gnt-debug delay')
            options='--no-master -n --node -r --repeat -l --no-locks --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -r|--repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug submit-job')
            options='-v --verbose --op-repeat --job-repeat --timing-stats --each --dry-run --priority -d --debug --reason -h --help'; kind=file
            case $previous in
                --op-repeat) values=''; kind=none ;;
                --job-repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug locks')
            options='--interval --no-headers --separator --format --units -o --output -v --verbose -d --debug --reason -h --help'; kind=none
            case $previous in
                --interval) values=''; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry ') values='history events export-config simulate segment' ;;
        'gantry segment') values='range' ;;
        'gantry segment range') values='list show create set delete' ;;
        'gantry history')
            options='--kind --name --since --limit --no-headers --separator --format -d --debug --reason -h --help'; kind=none
            case $previous in
                --kind) values='cluster group node network port segmentrange subnetpool instance job'; kind=none ;;
                --name) values=''; kind=none ;;
                --since) values=''; kind=none ;;
                --limit) values=''; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry events')
            options='--from --follow -d --debug --reason -h --help'; kind=none
            case $previous in
                --from) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry export-config')
            options='--output -d --debug --reason -h --help'; kind=none
            case $previous in
                --output) values=''; kind=file ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry simulate')
            options='--seed --seeds --processes -d --debug --reason -h --help'; kind=none
            case $previous in
                --seed) values=''; kind=none ;;
                --seeds) values=''; kind=none ;;
                --processes) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range list')
            options='--used --not-used --unused --available --not-available --unavailable --long --no-headers --separator --format --units -o --output -v --verbose -F --filter -d --debug --reason -h --help'; kind=range
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range show')
            options='-d --debug --reason -h --help'; kind=range
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range create')
            options='--name --shared --private --project --project_id --project-id --network-type --network_type --physical-network --physical_network --minimum --maximum --description --tags --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --name) values=''; kind=none ;;
                --shared) values=''; kind=none ;;
                --project|--project_id|--project-id) values=''; kind=none ;;
                --network-type|--network_type) values=''; kind=none ;;
                --physical-network|--physical_network) values=''; kind=none ;;
                --minimum) values=''; kind=none ;;
                --maximum) values=''; kind=none ;;
                --description) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range set')
            options='--name --minimum --maximum --description --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=range
            case $previous in
                --name) values=''; kind=none ;;
                --minimum) values=''; kind=none ;;
                --maximum) values=''; kind=none ;;
                --description) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range delete')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=range
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
    esac
    if [ "$kind" = file ]; then COMPREPLY=($(compgen -f -- "$current")); return; fi
    [ -z "$kind" ] || [ "$kind" = none ] || values=$(_gantry_names "$kind")
    case $current in -*) values=$options ;; esac
    COMPREPLY=($(compgen -W "$values" -- "$current"))
}
complete -F _gantry gnt-cluster gnt-node gnt-group gnt-instance gnt-network gnt-os gnt-backup gnt-job gnt-debug gantry
