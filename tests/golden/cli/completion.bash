# Completion of the gnt-* commands for bash; made by: python -m gantry.cli.completion bash

_gantry_names() {
    case $1 in
        instance) gnt-instance list --no-headers -o name ;;
        node) gnt-node list --no-headers -o name ;;
        network) gnt-network list --no-headers -o name ;;
        group) gnt-node list --no-headers -o group | sort -u ;;
        os) gnt-os list --no-headers ;;
        job) gnt-job list --no-headers -o id ;;
    esac 2>/dev/null
}

_gantry() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local program=${COMP_WORDS[0]##*/} command=${COMP_WORDS[1]} options= values= kind=
    COMPREPLY=()
    [ "$COMP_CWORD" -gt 1 ] || command=
    case "$program $command" in
        'gnt-cluster ') values='init info show version getmaster verify destroy' ;;
        'gnt-cluster init')
            options='--node-name --primary-ip --port --enabled-hypervisors --enabled-disk-templates -H --hypervisor-parameters --hypervisor --hypervisor-defaults -B --backend-parameters -N --nic-parameters -m --mac-prefix -C --candidate-pool-size --master-netdev -d --debug --reason -h --help'; kind=none
            case $previous in
                --node-name) values=''; kind=none ;;
                --primary-ip) values=''; kind=none ;;
                --port) values=''; kind=none ;;
                --enabled-hypervisors) values=''; kind=none ;;
                --enabled-disk-templates) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor|--hypervisor-defaults) values=''; kind=none ;;
                -B|--backend-parameters) values=''; kind=none ;;
                -N|--nic-parameters) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                -C|--candidate-pool-size) values=''; kind=none ;;
                --master-netdev) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster info'|'gnt-cluster show')
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
        'gnt-node ') values='add list list-fields info show remove' ;;
        'gnt-node add')
            options='--join-token-file --join-token --primary-ip --port -g --node-group --master-capable --vm-capable --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --join-token-file) values=''; kind=file ;;
                --join-token) values=''; kind=none ;;
                --primary-ip) values=''; kind=none ;;
                --port) values=''; kind=none ;;
                -g|--node-group) values=''; kind=group ;;
                --master-capable) values=''; kind=none ;;
                --vm-capable) values=''; kind=none ;;
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
        'gnt-node remove')
            options='--dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance ') values='add list list-fields info show startup start up shutdown stop down reboot remove console' ;;
        'gnt-instance add')
            options='-t --disk-template -s --os-size --disk --net --no-nics -o --os-type -O --os-parameters -n --node -g --node-group -B --backend-parameters -H --hypervisor-parameters --hypervisor --no-start --no-install --force-variant --no-conflicts-check --tags -f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                -t|--disk-template) values=''; kind=none ;;
                -s|--os-size) values=''; kind=none ;;
                --disk) values=''; kind=none ;;
                --net) values=''; kind=none ;;
                -o|--os-type) values=''; kind=os ;;
                -O|--os-parameters) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
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
                -t|--type) values='hard soft full'; kind=none ;;
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
        'gnt-network ') values='add connect disconnect list list-fields info show remove' ;;
        'gnt-network add')
            options='--subnet --pool --network --gateway --network6 --gateway6 -m --mac-prefix --add-reserved-ips --no-conflicts-check --tags --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=none
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --network) values=''; kind=none ;;
                --gateway) values=''; kind=none ;;
                --network6) values=''; kind=none ;;
                --gateway6) values=''; kind=none ;;
                -m|--mac-prefix) values=''; kind=none ;;
                --add-reserved-ips) values=''; kind=none ;;
                --tags) values=''; kind=none ;;
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
            options='-d --debug --reason -h --help'; kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove')
            options='-f --force --dry-run --priority --submit --print-jobid -d --debug --reason -h --help'; kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os ') values='list info diagnose' ;;
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
        'gnt-os diagnose')
            options='--priority -d --debug --reason -h --help'; kind=none
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
    esac
    if [ "$kind" = file ]; then COMPREPLY=($(compgen -f -- "$current")); return; fi
    [ -z "$kind" ] || [ "$kind" = none ] || values=$(_gantry_names "$kind")
    case $current in -*) values=$options ;; esac
    COMPREPLY=($(compgen -W "$values" -- "$current"))
}
complete -F _gantry gnt-cluster gnt-node gnt-instance gnt-network gnt-os gnt-job gnt-debug
