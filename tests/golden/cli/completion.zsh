#compdef gnt-cluster gnt-node gnt-group gnt-instance gnt-network gnt-os gnt-backup gnt-job gnt-debug gantry
# Completion of the gnt-* commands for zsh; made by: python -m gantry.cli.completion zsh

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
    local program=${words[1]:t} command=${words[2]} previous=${words[CURRENT-1]} values= kind=
    local -a options
    (( CURRENT > 2 )) || command=
    case "$program $command" in
        'gantry segment') command="${(j: :)words[2,CURRENT > 4 ? 4 : CURRENT - 1]}" ;;
    esac
    case "$program $command" in
        'gnt-cluster ') options=('init:Create a cluster with this machine as its master' 'modify:Change settings of the cluster' 'info:Show the cluster' 'show:Show the cluster' 'show-ispecs-cmd:Print the command that creates a cluster with the same instance sizes' 'version:Show the cluster'\''s versions' 'getmaster:Print the master'\''s name' 'master-failover:Make this node the master' 'masterfailover:Make this node the master' 'master-ping:Check whether the master daemon answers' 'queue:Close or open the job queue' 'watcher:Pause or continue the watcher' 'redist-conf:Send the cluster'\''s files to all nodes again' 'verify:Check configuration, nodes and instances' 'destroy:Destroy the cluster' 'command:Run a command on all nodes by SSH' 'copyfile:Copy a file of the master to the same place on all nodes by SSH' 'verify-disks:Activate the inactive disks of running instances' 'list-tags:List the tags of the cluster' 'add-tags:Add tags to the cluster' 'remove-tags:Remove tags from the cluster' 'search-tags:Find tags of all objects by a regular expression') ;;
        'gnt-cluster init')
            options=('--node-name:Set the name of this machine in the cluster; by default the host name' '--primary-ip:Set the address of this machine'\''s node daemon; by default the name is resolved' '--port:Set the port of the node daemons' '--enabled-hypervisors:Enable hypervisors, the default one first, as in kvm,fake' '--enabled-disk-templates:Enable disk templates, the default one first, as in file,diskless' '--defaults:Set the default hypervisor, disk size and NIC bridge of instances' '-H:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-parameters:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-defaults:Set default parameters of a hypervisor, as in kvm:accel=tcg' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-N:Set default NIC parameters, as in mode=bridged,link=br0' '--nic-parameters:Set default NIC parameters, as in mode=bridged,link=br0' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--ipolicy-std-specs:Set the standard instance, for capacity planning' '-m:Set the first half of generated MAC addresses, as in aa:00:00' '--mac-prefix:Set the first half of generated MAC addresses, as in aa:00:00' '-C:Set how many nodes keep a copy of the state, the master included' '--candidate-pool-size:Set how many nodes keep a copy of the state, the master included' '--max-running-jobs:Limit how many jobs run at the same time' '--ipam-hold-time:Quarantine released addresses for this time, as in 3600 or 1h; 0 by default' '--network-thresholds:Let verify warn, and fail, when this percentage of a network'\''s pools is in use; 80,95 by default' '-I:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator-params:Set the options of that program, as in algorithm=tight' '--vg-name:Set the volume group of disks that name none; xenvg by default' '--prealloc-wipe-disks:Overwrite new disks with zeros before use: yes or no' '--segment-ranges:Allow segment ranges besides those of segments.ini: yes or no' '--segment-fallback:Let a project without free ids in its own segment ranges use the shared ranges: yes or no' '--master-netdev:Set the network device of the master'\''s own address' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--enabled-hypervisors:Enable hypervisors, the default one first, as in kvm,fake' '--enabled-disk-templates:Enable disk templates, the default one first, as in file,diskless' '--defaults:Set the default hypervisor, disk size and NIC bridge of instances' '-H:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-parameters:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-defaults:Set default parameters of a hypervisor, as in kvm:accel=tcg' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-N:Set default NIC parameters, as in mode=bridged,link=br0' '--nic-parameters:Set default NIC parameters, as in mode=bridged,link=br0' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--ipolicy-std-specs:Set the standard instance, for capacity planning' '-m:Set the first half of generated MAC addresses, as in aa:00:00' '--mac-prefix:Set the first half of generated MAC addresses, as in aa:00:00' '-C:Set how many nodes keep a copy of the state, the master included' '--candidate-pool-size:Set how many nodes keep a copy of the state, the master included' '--max-running-jobs:Limit how many jobs run at the same time' '--ipam-hold-time:Quarantine released addresses for this time, as in 3600 or 1h; 0 by default' '--network-thresholds:Let verify warn, and fail, when this percentage of a network'\''s pools is in use; 80,95 by default' '-I:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator-params:Set the options of that program, as in algorithm=tight' '--vg-name:Set the volume group of disks that name none; xenvg by default' '--prealloc-wipe-disks:Overwrite new disks with zeros before use: yes or no' '--segment-ranges:Allow segment ranges besides those of segments.ini: yes or no' '--segment-fallback:Let a project without free ids in its own segment ranges use the shared ranges: yes or no' '--master-netdev:Set the network device of the master'\''s own address' '--ipam-driver:Set what decides allocations: embedded, the cluster'\''s state; sql, a database shared with others' '--ipam-database:Set the database of the sql driver, sqlite:///FILE or postgresql://USER@HOST/DATABASE' '-f:Continue although nodes or the database do not answer, or nodes lack a bridge' '--force:Continue although nodes or the database do not answer, or nodes lack a bridge' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster show-ispecs-cmd')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster version')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster getmaster')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-failover'|'gnt-cluster masterfailover')
            options=('--no-voting:Use this copy of the state without asking the nodes; needs --yes-do-it' '--yes-do-it:Confirm, and abort running jobs' '--ignore-offline-nodes:Do not count nodes that are marked offline and do not answer' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-ping')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster queue')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster watcher')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster redist-conf')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify')
            options=('-v:Accepted for older clients; has no effect' '--verbose:Accepted for older clients; has no effect' '--error-codes:Log errors in a form for programs, ERROR:code:kind:name: text' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster destroy')
            options=('--yes-do-it:Confirm that the cluster is to be destroyed' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster command')
            options=('-n:Only this node' '--node:Only this node' '-g:Only the nodes of this group' '--node-group:Only the nodes of this group' '-M:Put the node'\''s name before each line' '--show-machine-names:Put the node'\''s name before each line' '--failure-only:Show only where it failed' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster copyfile')
            options=('-n:Only this node' '--node:Only this node' '-g:Only the nodes of this group' '--node-group:Only the nodes of this group' '--use-replication-network:Go by the nodes'\'' secondary addresses' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=file
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify-disks')
            options=('-g:Node group; by default any node group' '--node-group:Node group; by default any node group' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -g|--node-group) values=''; kind=group ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster list-tags')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster search-tags')
            options=('--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node ') options=('add:Add a machine to the cluster' 'list:List nodes' 'list-fields:List the columns that the list can have' 'info:Show nodes in full' 'show:Show nodes in full' 'modify:Change a node'\''s flags and parameters' 'remove:Remove a node from the cluster' 'evacuate:Move instances and copies of disks off a node' 'migrate:Migrate all instances that run on a node' 'failover:Stop all instances of a node and start them elsewhere' 'volumes:List the logical volumes of nodes' 'list-storage:List the storage units of nodes' 'modify-storage:Allow or forbid new disks on a physical volume' 'repair-storage:Remove missing physical volumes from a volume group' 'list-tags:List the tags of one node' 'add-tags:Add tags to one node' 'remove-tags:Remove tags from one node') ;;
        'gnt-node add')
            options=('--join-token-file:Read the node'\''s join token from this file; - is standard input' '--join-token:Give the join token itself; other users of this machine may see it' '--primary-ip:Set the address of the node daemon; without it the node name is resolved' '--port:Set the port of the node daemon' '-g:Node group; by default the group named default' '--node-group:Node group; by default the group named default' '--master-capable:Allow the node to be a master candidate' '--vm-capable:Allow the node to run instances' '--node-parameters:Set node parameters that differ from the node group'\''s, as in cpu_speed=1.5; -name resets one' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node info'|'gnt-node show')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node modify')
            options=('-C:Make the node a master candidate: it keeps a copy of the state and can become the master' '--master-candidate:Make the node a master candidate: it keeps a copy of the state and can become the master' '-D:Mark the node drained: it gets no new instances' '--drained:Mark the node drained: it gets no new instances' '-O:Mark the node offline: it is not called, and is neither a candidate nor a primary node' '--offline:Mark the node offline: it is not called, and is neither a candidate nor a primary node' '--master-capable:Allow the node to be a master candidate' '--vm-capable:Allow the node to run instances' '--node-parameters:Set node parameters that differ from the node group'\''s, as in cpu_speed=1.5; -name resets one' '--auto-promote:Accepted for older clients; a missing candidate is always replaced' '-f:Remove a candidate from the pool although no node can replace it' '--force:Remove a candidate from the pool although no node can replace it' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
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
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node evacuate')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-p:Move only instances that run on the node' '--primary-only:Move only instances that run on the node' '-s:Move only copies of disks of instances that run elsewhere' '--secondary-only:Move only copies of disks of instances that run elsewhere' '-n:Set the node that everything moves to' '--new-secondary:Set the node that everything moves to' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--early-release:Release the old copy of a disk before the new copy is complete' '--ignore-soft-errors:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node migrate')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-n:Set the target node of all instances' '--node:Set the target node of all instances' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--non-live:Pause the guest while its memory is sent' '--migration-mode:Set the migration mode: live keeps the guest running while its memory is sent' '--ignore-ipolicy:Ignore the instance policy of the node group' '--no-runtime-changes:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node failover')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--ignore-consistency:Continue although the source node does not answer, or a copy of the disks is out of date' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node volumes')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-storage')
            options=('-t:List storage of this type; by default that of the cluster'\''s first disk template' '--storage-type:List storage of this type; by default that of the cluster'\''s first disk template' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -t|--storage-type) values='file lvm-pv lvm-vg sharedfile'; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node modify-storage')
            options=('--allocatable:Allow new disks on the physical volume: yes or no' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --allocatable) values='yes no'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node repair-storage')
            options=('--ignore-consistency:Continue even if the only complete copy of a disk is lost' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-tags')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group ') options=('add:Create a node group' 'modify:Change a node group' 'rename:Rename a node group' 'assign-nodes:Move nodes to a node group' 'evacuate:Move all instances out of a node group' 'list:List node groups' 'list-fields:List the columns that the list can have' 'info:Show node groups in full' 'show:Show node groups in full' 'show-ispecs-cmd:Print the commands that create node groups with the same instance sizes' 'remove:Remove a node group without nodes' 'list-tags:List the tags of one node group' 'add-tags:Add tags to one node group' 'remove-tags:Remove tags from one node group') ;;
        'gnt-group add')
            options=('--alloc-policy:Set whether the allocator uses the group: always, only if no other group has capacity, or never' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
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
            options=('--alloc-policy:Set whether the allocator uses the group: always, only if no other group has capacity, or never' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
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
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group assign-nodes')
            options=('-f:Continue although an instance loses a network or has disks in two node groups' '--force:Continue although an instance loses a network or has disks in two node groups' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group evacuate')
            options=('--to:Set the node groups that instances may move to; empty for any' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--early-release:Release the old copy of a disk before the new copy is complete' '--sequential:Run one job after the other' '--force-failover:Fail over instead of migrating' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group info'|'gnt-group show')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group show-ispecs-cmd')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-tags')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance ') options=('add:Create an instance' 'list:List instances' 'list-fields:List the columns that the list can have' 'info:Show instances in full' 'show:Show instances in full' 'modify:Change NICs, disks and parameters' 'startup:Start instances' 'start:Start instances' 'up:Start instances' 'shutdown:Shut instances down' 'stop:Shut instances down' 'down:Shut instances down' 'reboot:Restart instances' 'remove:Remove an instance and its disks' 'console:Connect to an instance'\''s console' 'reinstall:Reinstall the operating system of stopped instances' 'rename:Rename a stopped instance' 'batch-create:Create the instances that a file describes' 'failover:Stop an instance and start it on another node' 'migrate:Move a running instance to another node' 'move:Copy an instance'\''s disks to another node and run it there' 'change-group:Move an instance to another node group' 'grow-disk:Grow a disk' 'activate-disks:Activate the disks of an instance on its nodes' 'deactivate-disks:Deactivate the disks of an instance' 'recreate-disks:Recreate lost disks of an instance, empty' 'replace-disks:Replace one side of mirrored disks' 'list-tags:List the tags of one instance' 'add-tags:Add tags to one instance' 'remove-tags:Remove tags from one instance') ;;
        'gnt-instance add')
            options=('-t:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '--disk-template:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '-s:Create one disk of this size, as in 10g' '--os-size:Create one disk of this size, as in 10g' '--disk:Create a disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, spindles' '--net:Create a NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; ip takes an address, pool, or the name of a pool; also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults' '--no-nics:Create no NIC' '-o:Install this operating system, as in busybox+default' '--os-type:Install this operating system, as in busybox+default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '-n:Create the instance on this node; mirrored disks take a secondary node too' '--node:Create the instance on this node; mirrored disks take a secondary node too' '-g:Node group; by default any node group' '--node-group:Node group; by default any node group' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor-parameters:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--no-start:Do not start the instance' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--no-install:Do not run the operating system'\''s scripts, and do not start the instance' '--force-variant:Accept an OS variant that the OS definition does not list' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '--ignore-ipolicy:Ignore the instance policy of the node group' '--tags:Tags, separated by commas' '-f:Allow externally reserved addresses' '--force:Allow externally reserved addresses' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance info'|'gnt-instance show')
            options=('-s:Do not ask the nodes' '--static:Do not ask the nodes' '--all:All instances' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance modify')
            options=('--net:Change a NIC, as in 0:modify,ip1=192.0.2.10 or -1:add,ip0=pool,network=net1 or 1:remove' '--disk:Change a disk, as in add:size=10g or 1:modify,mode=ro or 2:remove' '-t:Convert the disks of a stopped instance to file, sharedfile, plain, drbd or ext' '--disk-template:Convert the disks of a stopped instance to file, sharedfile, plain, drbd or ext' '-n:Set the secondary node for -t drbd; without it the allocator chooses one' '--node:Set the secondary node for -t drbd; without it the allocator chooses one' '-I:Let an allocator choose the secondary node; gantry is the built-in allocator' '--iallocator:Let an allocator choose the secondary node; gantry is the built-in allocator' '-e:Set the provider for -t ext and its parameters, as in provider=san,tier=gold' '--ext-params:Set the provider for -t ext and its parameters, as in provider=san,tier=gold' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set hypervisor parameters; -name takes one back to its default' '--hypervisor-parameters:Set hypervisor parameters; -name takes one back to its default' '--hypervisor:Set hypervisor parameters; -name takes one back to its default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '-f:Allow externally reserved addresses, and keep a disk copy that may be incomplete' '--force:Allow externally reserved addresses, and keep a disk copy that may be incomplete' '--hotplug:Change NICs and disks of a running instance at once, where possible: the default' '--hotplug-if-possible:Do the same as --hotplug' '--no-hotplug:Leave a running instance unchanged until its next start' '-m:Change the memory of the running guest, as in 512m' '--runtime-memory:Change the memory of the running guest, as in 512m' '--offline:Mark a stopped instance offline: nothing will start it' '--online:Mark an offline instance stopped again' '--ignore-ipolicy:Ignore the instance policy of the node group' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
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
            options=('-f:Start the instance even if the node has too little free memory' '--force:Start the instance even if the node has too little free memory' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set hypervisor parameters for this start only' '--hypervisor-parameters:Set hypervisor parameters for this start only' '--hypervisor:Set hypervisor parameters for this start only' '--no-remember:Do not change the recorded admin state' '--paused:Start the guest paused' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance shutdown'|'gnt-instance stop'|'gnt-instance down')
            options=('-f:Power off at once, even if the node is marked offline' '--force:Power off at once, even if the node is marked offline' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '--timeout:Wait this many seconds for the guest to shut down before powering it off' '--no-remember:Do not change the recorded admin state' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reboot')
            options=('--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-t:Reboot type: soft in the guest, hard by the hypervisor, full with disks and configuration' '--type:Reboot type: soft in the guest, hard by the hypervisor, full with disks and configuration' '--shutdown-timeout:Wait this many seconds for the guest to shut down before powering it off' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -t|--type) values='full hard soft'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--shutdown-timeout:Wait this many seconds for the guest to shut down before powering it off' '--ignore-failures:Continue although the node cannot stop the instance or remove its disks' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance console')
            options=('--show-cmd:Print the command instead of running it' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reinstall')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-o:Install another operating system' '--os-type:Install another operating system' '--select-os:Choose the operating system from a list' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '--force-variant:Accept an OS variant that the OS definition does not list' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -o|--os-type) values=''; kind=os ;;
                -O|--os-parameters) values=''; kind=none ;;
                --os-parameters-private) values=''; kind=none ;;
                --os-parameters-secret) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance rename')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--no-ip-check:Accepted for older scripts; addresses are never looked up' '--no-name-check:Accepted for older scripts; names are never looked up' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance batch-create')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance failover')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-n:Set the target node' '--target-node:Set the target node' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--ignore-consistency:Continue although the source node does not answer, or a copy of the disks is out of date' '--keep:Set which node keeps its copy of mirrored disks when the target is a third node' '--wait-for-sync:Start the instance only when the new copy of its disks is complete' '--shutdown-timeout:Wait this many seconds for the guest to shut down before powering it off' '--ignore-ipolicy:Ignore the instance policy of the node group' '--cleanup:Clean up after an interrupted move: find where the instance runs' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--target-node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --keep) values='primary secondary'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance migrate')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-n:Set the target node' '--target-node:Set the target node' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--non-live:Pause the guest while its memory is sent' '--migration-mode:Set the migration mode: live keeps the guest running while its memory is sent' '--allow-failover:Fail over if the instance does not run or cannot be migrated' '--ignore-ipolicy:Ignore the instance policy of the node group' '--cleanup:Clean up after an interrupted move: find where the instance runs' '--no-runtime-changes:Accepted for older scripts; has no effect' '--ignore-hvversions:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--target-node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance move')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '-n:Set the target node, which the disks are copied to' '--node:Set the target node, which the disks are copied to' '--compress:Set the program that compresses the copy' '--ignore-consistency:Continue although the instance cannot be shut down cleanly' '--shutdown-timeout:Wait this many seconds for the guest to shut down before powering it off' '--ignore-ipolicy:Ignore the instance policy of the node group' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --compress) values='gzip none'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance change-group')
            options=('--to:Set the node groups that instances may move to; empty for any' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--early-release:Release the old copy of a disk before the new copy is complete' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance grow-disk')
            options=('--absolute:Grow the disk to SIZE, not by SIZE' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--ignore-ipolicy:Ignore the instance policy of the node group' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance activate-disks')
            options=('--wait-for-sync:Wait until mirrored disks are in sync' '--ignore-size:Accepted for older clients; sizes are not compared' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance deactivate-disks')
            options=('-f:Do not check whether the instance runs; disks in use stay active' '--force:Do not check whether the instance runs; disks in use stay active' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance recreate-disks')
            options=('--disk:Recreate only this disk, as in 1, or 1:size=20g for another size; without it, all lost disks' '-n:Recreate the disks on other nodes' '--node:Recreate the disks on other nodes' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --disk) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance replace-disks')
            options=('-p:Recreate the volumes on the primary node' '--on-primary:Recreate the volumes on the primary node' '-s:Recreate the volumes on the secondary node' '--on-secondary:Recreate the volumes on the secondary node' '-a:Recreate the volumes that are broken' '--auto:Recreate the volumes that are broken' '-n:Set another secondary node' '--new-secondary:Set another secondary node' '-I:Let an allocator choose the secondary node; . is the cluster'\''s default allocator' '--iallocator:Let an allocator choose the secondary node; . is the cluster'\''s default allocator' '--disks:Replace only these disks, as in 0,2' '--early-release:Release the old copy before the new copy is complete' '--ignore-ipolicy:Ignore the instance policy of the node group' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --disks) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-tags')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network ') options=('add:Create a network' 'modify:Change a network' 'rename:Rename a network' 'connect:Connect a network to node groups; without GROUP, to all' 'disconnect:Disconnect a network from node groups; without GROUP, from all' 'list:List networks' 'list-fields:List the columns that the list can have' 'info:Show networks in full' 'show:Show networks in full' 'history:Show who had which address, from when to when, by which job' 'map:Draw the pools of a network' 'export-reservations:Write what is reserved in a network as CSV, without a FILE to the standard output' 'import-reservations:Reserve externally what a CSV file names' 'dhcp:Write the configuration of a DHCP server for a network' 'remove:Remove a network' 'list-tags:List the tags of one network' 'add-tags:Add tags to one network' 'remove-tags:Remove tags from one network') ;;
        'gnt-network add')
            options=('--subnet:Add a subnet, as in cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan; the word pool makes a pool of the whole subnet' '--pool:Add a pool, as in 10.0.0.10-10.0.0.99,name=web; also a single address, a CIDR, or subnet=IDENT' '--network:Add an IPv4 subnet with this CIDR, and one pool of all its addresses' '--gateway:Set the gateway of --network' '--network6:Add an IPv6 subnet with this CIDR, and one pool of all its addresses' '--gateway6:Set the gateway of --network6' '--type:vlan, vxlan, gre or geneve' '--physical-network:Physical network of VLANs; empty for other network types' '--segment:Set the segmentation id; next, or a network type alone, allocates the next free id' '--project:Set the project of the network; its segment ranges provide the segmentation id' '-m:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--mac-prefix:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--add-reserved-ips:Reserve addresses and ranges externally, as in 10.0.0.2,10.0.0.5-10.0.0.9: pools never allocate them' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '-f:Allow ranges of more than 65,536 addresses' '--force:Allow ranges of more than 65,536 addresses' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--subnet:Add, change or remove a subnet, as shown above' '--pool:Add, rename or remove a pool, as shown above' '--add-reserved-ips:Reserve addresses and ranges externally, as in 10.0.0.2,10.0.0.5-10.0.0.9: pools never allocate them' '--remove-reserved-ips:Remove external reservations of these addresses and ranges' '--gateway:Set the gateway of the first IPv4 subnet; none removes it' '--network6:Set the CIDR of the first IPv6 subnet; none removes it' '--gateway6:Set the gateway of the first IPv6 subnet; none removes it' '--type:vlan, vxlan, gre or geneve' '--physical-network:Physical network of VLANs; empty for other network types' '--segment:Set the segmentation id; next, or a network type alone, allocates the next free id; none removes it' '-m:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--mac-prefix:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '-f:Allow ranges of more than 65,536 addresses' '--force:Allow ranges of more than 65,536 addresses' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
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
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network connect')
            options=('-N:Set how NICs are connected, as in mode=bridged,link=br0,vlan=5; without it, by the cluster'\''s defaults' '--nic-parameters:Set how NICs are connected, as in mode=bridged,link=br0,vlan=5; without it, by the cluster'\''s defaults' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                -N|--nic-parameters) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network disconnect')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network info'|'gnt-network show')
            options=('--at:As it was then: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --at) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network history')
            options=('--address:Only this address' '--at:As it was then: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h' '--limit:How many rows at most, the last ones' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-o:Columns, or +more columns, of address, instance, kind, from, to, job, opcode, user, reason, end_job, end_opcode, end_user, end_reason, instance_uuid, network_uuid' '--output:Columns, or +more columns, of address, instance, kind, from, to, job, opcode, user, reason, end_job, end_opcode, end_user, end_reason, instance_uuid, network_uuid' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
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
            options=('--subnet:Only the pools of this subnet: CIDR, name or UUID' '--pool:Only the pool of this name or range' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network export-reservations')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network import-reservations')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network dhcp')
            options=('--for:Which server' '--family:IP version of Kea'\''s file, where the network has both' '--domain:Domain that clients are told' '--interface:Interface that the server listens on' '--output:File to write instead of the standard output' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --for) values='dnsmasq kea'; kind=none ;;
                --family) values='4 6'; kind=none ;;
                --domain) values=''; kind=none ;;
                --interface) values=''; kind=none ;;
                --output) values=''; kind=file ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove')
            options=('-f:Accepted for older clients; a connected network is never removed' '--force:Accepted for older clients; a connected network is never removed' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-tags')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os ') options=('list:List operating systems with their variants' 'info:Show operating systems in full' 'modify:Change the defaults of an operating system'\''s parameters' 'diagnose:Show what each node has of them') ;;
        'gnt-os list')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os info')
            options=('--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=os
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os modify')
            options=('-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '-H:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hypervisor-parameters:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hypervisor:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hidden:Whether gnt-os list leaves it, or one variant, out' '--blacklisted:Whether it is not installed, and not listed' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=os
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
            options=('--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup ') options=('export:Export an instance to a node' 'import:Create an instance from an export' 'list:List exports' 'list-fields:List the columns that the list can have' 'remove:Remove the exports of an instance') ;;
        'gnt-backup export')
            options=('-n:Set the target node' '--node:Set the target node' '--transport-compression:Set the program that compresses the dumps' '--compress:Set the program that compresses the dumps' '--noshutdown:Do not stop the instance; its storage must support snapshots' '--shutdown-timeout:Wait this many seconds for the guest to shut down before powering it off' '--remove-instance:Remove the instance when the export is complete' '--ignore-remove-failures:Remove the instance even if a disk cannot be removed' '-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --transport-compression|--compress) values='none gzip gzip-fast gzip-slow zstd lzop'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup import')
            options=('--src-node:Set the node that has the export; by default all nodes are searched' '--src-dir:Set the name of the export; by default the instance'\''s name' '-t:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '--disk-template:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '-s:Create one disk of this size, as in 10g' '--os-size:Create one disk of this size, as in 10g' '--disk:Create a disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, spindles' '--net:Create a NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; ip takes an address, pool, or the name of a pool; also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults' '--no-nics:Create no NIC' '-o:Install this operating system, as in busybox+default' '--os-type:Install this operating system, as in busybox+default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '-n:Create the instance on this node; mirrored disks take a secondary node too' '--node:Create the instance on this node; mirrored disks take a secondary node too' '-g:Node group; by default any node group' '--node-group:Node group; by default any node group' '-I:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '--iallocator:Let an allocator choose: a program, . for the cluster'\''s default, gantry for the built-in one' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor-parameters:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--no-start:Do not start the instance' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--no-install:Do not run the operating system'\''s scripts, and do not start the instance' '--force-variant:Accept an OS variant that the OS definition does not list' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '--ignore-ipolicy:Ignore the instance policy of the node group' '--tags:Tags, separated by commas' '-f:Allow externally reserved addresses' '--force:Allow externally reserved addresses' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('-n:Node' '--node:Node' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup remove')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job ') options=('list:List jobs' 'list-fields:List the columns that the list can have' 'info:Show jobs in full' 'show:Show jobs in full' 'watch:Show a job'\''s log until it ends' 'wait:Wait until a job has ended, without its log' 'cancel:Cancel jobs that have not begun' 'archive:Put finished jobs into the archive' 'autoarchive:Archive all jobs that ended at least AGE ago, as in 3d; or all' 'change-priority:Change which jobs go first') ;;
        'gnt-job list')
            options=('--pending:Jobs that are queued or waiting' '--running:Jobs that are running or canceling' '--error:Jobs that are error' '--finished:Jobs that are success or error or canceled' '--archived:Also jobs in the archive, with a column that says so' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job list-fields')
            options=('--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job info'|'gnt-job show')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job watch')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job wait')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job cancel')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--kill:Also those that have begun, which may leave things half done' '--yes-do-it:Mean --kill' '--pending:Jobs that are queued or waiting' '--queued:Jobs that are queued' '--waiting:Jobs that are waiting' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job archive')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job autoarchive')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job change-priority')
            options=('-f:Do not ask for confirmation' '--force:Do not ask for confirmation' '--priority:Set the priority among waiting jobs' '--pending:Jobs that are queued or waiting' '--queued:Jobs that are queued' '--waiting:Jobs that are waiting' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug ') options=('delay:Submit a job that sleeps' 'submit-job:Submit jobs from files, each a JSON list of opcodes' 'locks:Show the locks, who holds them and who waits') ;;
        'gnt-debug delay')
            options=('--no-master:Do not sleep on the master' '-n:Also sleep on this node' '--node:Also sleep on this node' '-r:Sleep this many times; 0 means once' '--repeat:Sleep this many times; 0 means once' '-l:Do not lock the nodes' '--no-locks:Do not lock the nodes' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -r|--repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug submit-job')
            options=('-v:Print the results' '--verbose:Print the results' '--op-repeat:Repeat the opcodes in a job' '--job-repeat:Repeat the jobs' '--timing-stats:Print how long it took' '--each:Submit one after the other instead of all at once' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=file
            case $previous in
                --op-repeat) values=''; kind=none ;;
                --job-repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug locks')
            options=('--interval:Show them again after so many seconds' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --interval) values=''; kind=none ;;
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry ') options=('history:Show the last changes of the cluster'\''s state, and which jobs made them' 'events:Print changes of the state as they happen, a line of JSON each' 'export-config:Print the configuration as JSON, with secrets blanked' 'simulate:Run simulated clusters under faults, each from a seed; tell which promise was broken' 'segment:segment commands') ;;
        'gantry segment') values='range'; kind=none ;;
        'gantry segment range') values='list show create set delete'; kind=none ;;
        'gantry history')
            options=('--kind:Changes of such objects only' '--name:Changes of this object only, by name, UUID or number' '--since:From this serial, or this time, on' '--limit:How many changes' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--from:Begin with this serial' '--follow:Go on for ever, over restarts of the master too' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry export-config')
            options=('--output:Write it to this file' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --output) values=''; kind=file ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry simulate')
            options=('--seed:Run this seed and show its story' '--seeds:Run these seeds on all processors' '--processes:How many at once' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --seed) values=''; kind=none ;;
                --seeds) values=''; kind=none ;;
                --processes) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range list')
            options=('--used:List only ranges with an id in use' '--not-used:List only ranges without an id in use' '--unused:List only ranges without an id in use' '--available:List only ranges with a free id' '--not-available:List only ranges without a free id' '--unavailable:List only ranges without a free id' '--long:Also show which ids are in use and which are free' '--no-headers:Omit the column titles' '--separator:Separate columns by this text, without padding' '--format:Set the output format' '--units:Set the unit of sizes; h chooses one for each' '-o:Set the columns, or +columns to add some; list-fields lists them' '--output:Set the columns, or +columns to add some; list-fields lists them' '-v:Say why a value is missing' '--verbose:Say why a value is missing' '-F:Interpret the argument as a filter, not as a name' '--filter:Interpret the argument as a filter, not as a name' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range show')
            options=('-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range create')
            options=('--name:Set the name, which need not be unique' '--shared:Create the range for every project, which is the default' '--private:Create the range for one project' '--project:Set the project of a private range' '--project_id:Set the project of a private range' '--project-id:Set the project of a private range' '--network-type:Set the network type: vlan, vxlan, gre or geneve' '--network_type:Set the network type: vlan, vxlan, gre or geneve' '--physical-network:Set the physical network of a VLAN range' '--physical_network:Set the physical network of a VLAN range' '--minimum:Set the lowest segmentation id' '--maximum:Set the highest segmentation id' '--description:Set the description' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=none
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
            options=('--name:Set the name, which need not be unique' '--minimum:Set the lowest segmentation id' '--maximum:Set the highest segmentation id' '--description:Set the description' '--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --name) values=''; kind=none ;;
                --minimum) values=''; kind=none ;;
                --maximum) values=''; kind=none ;;
                --description) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range delete')
            options=('--dry-run:Show what would be done, without changing anything' '--priority:Set the priority among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job number on the first line' '-d:Show errors in full; repeat for more detail' '--debug:Show errors in full; repeat for more detail' '--reason:Set the reason, which is stored with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
    esac
    if [[ -z $command || $PREFIX == -* ]]; then _describe 'word' options; return; fi
    if [[ $kind == file ]]; then _files; return; fi
    [[ $kind == none ]] || values=$(_gantry_names "$kind")
    compadd -- ${=values}
}
_gantry "$@"
