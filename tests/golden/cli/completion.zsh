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
            options=('--node-name:Set the name of this machine in the cluster; by default the host name' '--primary-ip:Set the address of this machine'\''s node daemon; by default the name is resolved' '--port:Set the port of the node daemons' '--enabled-hypervisors:Enable hypervisors, the default one first, as in kvm,fake' '--enabled-disk-templates:Enable disk templates, the default one first, as in file,diskless' '--defaults:Set the default hypervisor, disk size and NIC bridge of instances' '-H:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-parameters:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-defaults:Set default parameters of a hypervisor, as in kvm:accel=tcg' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-N:Set default NIC parameters, as in mode=bridged,link=br0' '--nic-parameters:Set default NIC parameters, as in mode=bridged,link=br0' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--ipolicy-std-specs:Set the standard instance, for capacity planning' '-m:First half of the MAC addresses that are made, as in aa:00:00' '--mac-prefix:First half of the MAC addresses that are made, as in aa:00:00' '-C:How many nodes keep a copy of the state; nodes are promoted and demoted at once' '--candidate-pool-size:How many nodes keep a copy of the state; nodes are promoted and demoted at once' '--max-running-jobs:How many jobs run at once; the others wait' '--ipam-hold-time:Quarantine released addresses for this time, as in 3600 or 1h; 0 by default' '--network-thresholds:Let verify warn, and fail, when this percentage of a network'\''s pools is in use; 80,95 by default' '-I:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator-params:Set the options of that program, as in algorithm=tight' '--vg-name:Set the volume group of disks that name none; xenvg by default' '--prealloc-wipe-disks:Overwrite new disks with zeros before they are used' '--segment-ranges:Let segment ranges be made besides those of segments.ini; off, only those apply' '--segment-fallback:Let a project that has used up its own segment ranges take from the shared ones' '--master-netdev:Network device of the master'\''s own address' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--enabled-hypervisors:Enable hypervisors, the default one first, as in kvm,fake' '--enabled-disk-templates:Enable disk templates, the default one first, as in file,diskless' '--defaults:Set the default hypervisor, disk size and NIC bridge of instances' '-H:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-parameters:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor:Set default parameters of a hypervisor, as in kvm:accel=tcg' '--hypervisor-defaults:Set default parameters of a hypervisor, as in kvm:accel=tcg' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-N:Set default NIC parameters, as in mode=bridged,link=br0' '--nic-parameters:Set default NIC parameters, as in mode=bridged,link=br0' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--ipolicy-std-specs:Set the standard instance, for capacity planning' '-m:First half of the MAC addresses that are made, as in aa:00:00' '--mac-prefix:First half of the MAC addresses that are made, as in aa:00:00' '-C:How many nodes keep a copy of the state; nodes are promoted and demoted at once' '--candidate-pool-size:How many nodes keep a copy of the state; nodes are promoted and demoted at once' '--max-running-jobs:How many jobs run at once; the others wait' '--ipam-hold-time:Quarantine released addresses for this time, as in 3600 or 1h; 0 by default' '--network-thresholds:Let verify warn, and fail, when this percentage of a network'\''s pools is in use; 80,95 by default' '-I:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator:Set the program that places instances, such as hail; empty for the built-in allocator' '--default-iallocator-params:Set the options of that program, as in algorithm=tight' '--vg-name:Set the volume group of disks that name none; xenvg by default' '--prealloc-wipe-disks:Overwrite new disks with zeros before they are used' '--segment-ranges:Let segment ranges be made besides those of segments.ini; off, only those apply' '--segment-fallback:Let a project that has used up its own segment ranges take from the shared ones' '--master-netdev:Network device of the master'\''s own address' '--ipam-driver:Who has the last word on addresses: embedded, the state alone; sql, a database that others use too' '--ipam-database:Set the database of the sql driver, sqlite:///FILE or postgresql://USER@HOST/DATABASE' '-f:Continue although nodes or the database do not answer, or nodes lack a bridge' '--force:Continue although nodes or the database do not answer, or nodes lack a bridge' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster show-ispecs-cmd')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster version')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster getmaster')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-failover'|'gnt-cluster masterfailover')
            options=('--no-voting:Use this copy of the state without asking the nodes; needs --yes-do-it' '--yes-do-it:Confirm, and abort running jobs' '--ignore-offline-nodes:Do not count nodes that are marked offline and do not answer' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster master-ping')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster queue')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster watcher')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster redist-conf')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify')
            options=('-v:Taken for older clients' '--verbose:Taken for older clients' '--error-codes:Log errors in the form that programs read, ERROR:code:kind:name: text' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster destroy')
            options=('--yes-do-it:Confirm that the cluster is to be destroyed' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster command')
            options=('-n:Only this node' '--node:Only this node' '-g:Only the nodes of this group' '--node-group:Only the nodes of this group' '-M:Put the node'\''s name before each line' '--show-machine-names:Put the node'\''s name before each line' '--failure-only:Show only where it failed' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster copyfile')
            options=('-n:Only this node' '--node:Only this node' '-g:Only the nodes of this group' '--node-group:Only the nodes of this group' '--use-replication-network:Go by the nodes'\'' secondary addresses' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=file
            case $previous in
                -n|--node) values=''; kind=node ;;
                -g|--node-group) values=''; kind=group ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster verify-disks')
            options=('-g:Node group; without it, where a node is to be chosen, any' '--node-group:Node group; without it, where a node is to be chosen, any' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -g|--node-group) values=''; kind=group ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster list-tags')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-cluster search-tags')
            options=('--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node ') options=('add:Add a machine to the cluster' 'list:List nodes' 'list-fields:List the columns that the list can have' 'info:Show nodes in full' 'show:Show nodes in full' 'modify:Change a node'\''s flags and parameters' 'remove:Remove a node from the cluster' 'evacuate:Move instances and copies of disks off a node' 'migrate:Migrate all instances that run on a node' 'failover:Stop all instances of a node and start them elsewhere' 'volumes:List the logical volumes of nodes' 'list-storage:List the storage units of nodes' 'modify-storage:Allow or forbid new disks on a physical volume' 'repair-storage:Remove missing physical volumes from a volume group' 'list-tags:List the tags of one node' 'add-tags:Add tags to one node' 'remove-tags:Remove tags from one node') ;;
        'gnt-node add')
            options=('--join-token-file:Read the node'\''s join token from this file; - is standard input' '--join-token:Give the join token itself; other users of this machine may see it' '--primary-ip:Set the address of the node daemon; without it the node name is resolved' '--port:Port of the node daemon' '-g:Node group; empty for the default one' '--node-group:Node group; empty for the default one' '--master-capable:Whether it may be a master candidate' '--vm-capable:Whether it may run instances' '--node-parameters:Set node parameters that differ from the node group'\''s, as in cpu_speed=1.5; -name resets one' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-fields')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node info'|'gnt-node show')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node modify')
            options=('-C:Whether it keeps a copy of the state and may become the master' '--master-candidate:Whether it keeps a copy of the state and may become the master' '-D:Whether it gets no new instances; everything else works' '--drained:Whether it gets no new instances; everything else works' '-O:Whether it is out of order: it is not called, and neither a candidate nor a primary node' '--offline:Whether it is out of order: it is not called, and neither a candidate nor a primary node' '--master-capable:Whether it may be a master candidate' '--vm-capable:Whether it may run instances' '--node-parameters:Set node parameters that differ from the node group'\''s, as in cpu_speed=1.5; -name resets one' '--auto-promote:Taken for older clients; another node takes a candidate'\''s place by itself' '-f:Take a candidate out of the pool though nobody takes its place' '--force:Take a candidate out of the pool though nobody takes its place' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node evacuate')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-p:Move only instances that run on the node' '--primary-only:Move only instances that run on the node' '-s:Move only copies of disks of instances that run elsewhere' '--secondary-only:Move only copies of disks of instances that run elsewhere' '-n:Node that all of it goes to' '--new-secondary:Node that all of it goes to' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--early-release:Give up an old copy of a disk before the new one is complete' '--ignore-soft-errors:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node migrate')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-n:Node that they all go to' '--node:Node that they all go to' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--non-live:Pause the guest while its memory is sent' '--migration-mode:Whether the guest runs on while it is sent' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--no-runtime-changes:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node failover')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--ignore-consistency:Go on though the node it leaves does not answer, or a copy of its disks is behind' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node volumes')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-storage')
            options=('-t:List storage of this type; by default that of the cluster'\''s first disk template' '--storage-type:List storage of this type; by default that of the cluster'\''s first disk template' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--allocatable:Allow new disks on the physical volume: yes or no' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --allocatable) values='yes no'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node repair-storage')
            options=('--ignore-consistency:Also when that removes the only good copy of what was on them' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node list-tags')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-node remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=node
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group ') options=('add:Create a node group' 'modify:Change a node group' 'rename:Rename a node group' 'assign-nodes:Move nodes to a node group' 'evacuate:Move all instances out of a node group' 'list:List node groups' 'list-fields:List the columns that the list can have' 'info:Show node groups in full' 'show:Show node groups in full' 'show-ispecs-cmd:Print the commands that create node groups with the same instance sizes' 'remove:Remove a node group without nodes' 'list-tags:List the tags of one node group' 'add-tags:Add tags to one node group' 'remove-tags:Remove tags from one node group') ;;
        'gnt-group add')
            options=('--alloc-policy:Whether instances that name no node may come here: preferred, when nobody else has room, never' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--alloc-policy:Whether instances that name no node may come here: preferred, when nobody else has room, never' '--node-parameters:Set node parameters, as in cpu_speed=1.5' '-D:Set parameters of a disk template, as in plain:stripes=2' '--disk-parameters:Set parameters of a disk template, as in plain:stripes=2' '--ipolicy-bounds-specs:Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; // separates several ranges, one of which must fit' '--ipolicy-disk-templates:Set the disk templates that instances may have' '--ipolicy-vcpu-ratio:Set how many virtual processors share a processor' '--ipolicy-spindle-ratio:Set how much spindle use a spindle takes' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group assign-nodes')
            options=('-f:Go on though an instance loses a network, or has its disks in two node groups' '--force:Go on though an instance loses a network, or has its disks in two node groups' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group evacuate')
            options=('--to:Where they may go; empty for any' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--early-release:Give up an old copy of a disk before the new one is complete' '--sequential:One job after the other' '--force-failover:Fail over instead of migrating' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-fields')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group info'|'gnt-group show')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group show-ispecs-cmd')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group list-tags')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-group remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=group
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance ') options=('add:Create an instance' 'list:List instances' 'list-fields:List the columns that the list can have' 'info:Show instances in full' 'show:Show instances in full' 'modify:Change NICs, disks and parameters' 'startup:Start instances' 'start:Start instances' 'up:Start instances' 'shutdown:Shut instances down' 'stop:Shut instances down' 'down:Shut instances down' 'reboot:Restart instances' 'remove:Remove an instance and its disks' 'console:Connect to an instance'\''s console' 'reinstall:Reinstall the operating system of stopped instances' 'rename:Rename a stopped instance' 'batch-create:Create the instances that a file describes' 'failover:Stop an instance and start it on another node' 'migrate:Move a running instance to another node' 'move:Copy an instance'\''s disks to another node and run it there' 'change-group:Move an instance to another node group' 'grow-disk:Grow a disk' 'activate-disks:Activate the disks of an instance on its nodes' 'deactivate-disks:Deactivate the disks of an instance' 'recreate-disks:Recreate lost disks of an instance, empty' 'replace-disks:Replace one side of mirrored disks' 'list-tags:List the tags of one instance' 'add-tags:Add tags to one instance' 'remove-tags:Remove tags from one instance') ;;
        'gnt-instance add')
            options=('-t:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '--disk-template:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '-s:Create one disk of this size, as in 10g' '--os-size:Create one disk of this size, as in 10g' '--disk:Create a disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, spindles' '--net:Create a NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; ip takes an address, pool, or the name of a pool; also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults' '--no-nics:Create no NIC' '-o:Install this operating system, as in busybox+default' '--os-type:Install this operating system, as in busybox+default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '-n:Create the instance on this node; mirrored disks take a secondary node too' '--node:Create the instance on this node; mirrored disks take a secondary node too' '-g:Node group; without it, where a node is to be chosen, any' '--node-group:Node group; without it, where a node is to be chosen, any' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor-parameters:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--no-start:Do not start the instance' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--no-install:Do not run the operating system'\''s scripts, and do not start the instance' '--force-variant:Take a variant that the operating system does not list' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--tags:Tags, separated by commas' '-f:Allow addresses that are reserved externally' '--force:Allow addresses that are reserved externally' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-fields')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance info'|'gnt-instance show')
            options=('-s:Do not ask the nodes' '--static:Do not ask the nodes' '--all:All instances' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance modify')
            options=('--net:Change a NIC, as in 0:modify,ip1=192.0.2.10 or -1:add,ip0=pool,network=net1 or 1:remove' '--disk:Change a disk, as in add:size=10g or 1:modify,mode=ro or 2:remove' '-t:Convert the disks of a stopped instance to file, sharedfile, plain, drbd or ext' '--disk-template:Convert the disks of a stopped instance to file, sharedfile, plain, drbd or ext' '-n:Set the secondary node for -t drbd; without it the allocator chooses one' '--node:Set the secondary node for -t drbd; without it the allocator chooses one' '-I:Let an allocator choose the secondary node; gantry is the built-in allocator' '--iallocator:Let an allocator choose the secondary node; gantry is the built-in allocator' '-e:Set the provider for -t ext and its parameters, as in provider=san,tier=gold' '--ext-params:Set the provider for -t ext and its parameters, as in provider=san,tier=gold' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set hypervisor parameters; -name takes one back to its default' '--hypervisor-parameters:Set hypervisor parameters; -name takes one back to its default' '--hypervisor:Set hypervisor parameters; -name takes one back to its default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '-f:Allow addresses that are reserved externally, and a copy that may not be whole to be kept' '--force:Allow addresses that are reserved externally, and a copy that may not be whole to be kept' '--hotplug:Change NICs and disks of a running instance at once, where possible: the default' '--hotplug-if-possible:Do the same as --hotplug' '--no-hotplug:Leave a running instance unchanged until its next start' '-m:Change the memory of the running guest, as in 512m' '--runtime-memory:Change the memory of the running guest, as in 512m' '--offline:Mark a stopped instance offline: nothing will start it' '--online:Mark an offline instance stopped again' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-f:Start it also when the node has too little free memory' '--force:Start it also when the node has too little free memory' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set hypervisor parameters for this start only' '--hypervisor-parameters:Set hypervisor parameters for this start only' '--hypervisor:Set hypervisor parameters for this start only' '--no-remember:Leave what is wanted of the instance as it was' '--paused:Start the guest paused' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -B|--backend-parameters) values=''; kind=none ;;
                -H|--hypervisor-parameters|--hypervisor) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance shutdown'|'gnt-instance stop'|'gnt-instance down')
            options=('-f:Cut the power at once, whatever the state of its node' '--force:Cut the power at once, whatever the state of its node' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '--timeout:Seconds until the power is cut' '--no-remember:Leave what is wanted of the instance as it was' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reboot')
            options=('--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-t:soft in the guest, hard by the hypervisor, full with disks and configuration' '--type:soft in the guest, hard by the hypervisor, full with disks and configuration' '--shutdown-timeout:Seconds until the power is cut' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -t|--type) values='full hard soft'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '--shutdown-timeout:Seconds until the power is cut' '--ignore-failures:Go on when the node cannot stop it or remove its disks' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance console')
            options=('--show-cmd:Print the command instead of running it' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance reinstall')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '--all:All instances' '--instance:The arguments are instances (the default)' '--primary:The arguments are nodes: instances that run there' '--secondary:The arguments are nodes: instances with a copy of their disks there' '--node:The arguments are nodes: both' '--tags:The arguments are tags: instances with one of them' '--node-tags:The arguments are tags of nodes, taken as by --node' '--pri-node-tags:The arguments are tags of nodes, taken as by --primary' '--sec-node-tags:The arguments are tags of nodes, taken as by --secondary' '--force-multiple:Do not ask when there are several' '-o:Install another operating system' '--os-type:Install another operating system' '--select-os:Choose the operating system from a list' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '--force-variant:Take a variant that the operating system does not list' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '--no-ip-check:Accepted for older scripts; addresses are never looked up' '--no-name-check:Accepted for older scripts; names are never looked up' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance batch-create')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance failover')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-n:Node that it goes to' '--target-node:Node that it goes to' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--ignore-consistency:Go on though the node it leaves does not answer, or a copy of its disks is behind' '--keep:Which of both nodes keeps its copy of mirrored disks when a third one is the target' '--wait-for-sync:Start it only when the new copy of its disks is complete' '--shutdown-timeout:Seconds until the power is cut' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--cleanup:Find out where it runs after an interrupted move, and end that' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-n:Node that it goes to' '--target-node:Node that it goes to' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--non-live:Pause the guest while its memory is sent' '--migration-mode:Whether the guest runs on while it is sent' '--allow-failover:Fail over where it does not run or cannot be migrated' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--cleanup:Find out where it runs after an interrupted move, and end that' '--no-runtime-changes:Accepted for older scripts; has no effect' '--ignore-hvversions:Accepted for older scripts; has no effect' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--target-node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --migration-mode) values='live non-live'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance move')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '-n:Node that its disks are copied to' '--node:Node that its disks are copied to' '--compress:Program that compresses the copy' '--ignore-consistency:Go on though it cannot be stopped in an orderly way' '--shutdown-timeout:Seconds until the power is cut' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --compress) values='gzip none'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance change-group')
            options=('--to:Where they may go; empty for any' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--early-release:Give up an old copy of a disk before the new one is complete' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --to) values=''; kind=group ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance grow-disk')
            options=('--absolute:Grow the disk to SIZE, not by SIZE' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance activate-disks')
            options=('--wait-for-sync:Wait until mirrored disks are the same on both nodes' '--ignore-size:Kept for tools: sizes are not compared' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance deactivate-disks')
            options=('-f:Do not check whether the instance runs; disks in use stay active' '--force:Do not check whether the instance runs; disks in use stay active' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance recreate-disks')
            options=('--disk:Recreate only this disk, as in 1, or 1:size=20g for another size; without it, all lost disks' '-n:Recreate the disks on other nodes' '--node:Recreate the disks on other nodes' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --disk) values=''; kind=none ;;
                -n|--node) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance replace-disks')
            options=('-p:Recreate the volumes on the primary node' '--on-primary:Recreate the volumes on the primary node' '-s:Recreate the volumes on the secondary node' '--on-secondary:Recreate the volumes on the secondary node' '-a:Recreate the volumes that are broken' '--auto:Recreate the volumes that are broken' '-n:Set another secondary node' '--new-secondary:Set another secondary node' '-I:Let an allocator choose the secondary node; . is the cluster'\''s default allocator' '--iallocator:Let an allocator choose the secondary node; . is the cluster'\''s default allocator' '--disks:Replace only these disks, as in 0,2' '--early-release:Give up the old copy before the new one is complete' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--new-secondary) values=''; kind=node ;;
                -I|--iallocator) values=''; kind=none ;;
                --disks) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance list-tags')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-instance remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network ') options=('add:Create a network' 'modify:Change a network' 'rename:Rename a network' 'connect:Connect a network to node groups; without GROUP, to all' 'disconnect:Disconnect a network from node groups; without GROUP, from all' 'list:List networks' 'list-fields:List the columns that the list can have' 'info:Show networks in full' 'show:Show networks in full' 'history:Show who had which address, from when to when, by which job' 'map:Draw the pools of a network' 'export-reservations:Write what is reserved in a network as CSV, without a FILE to the standard output' 'import-reservations:Reserve externally what a CSV file names' 'dhcp:Write the configuration of a DHCP server for a network' 'remove:Remove a network' 'list-tags:List the tags of one network' 'add-tags:Add tags to one network' 'remove-tags:Remove tags from one network') ;;
        'gnt-network add')
            options=('--subnet:Add a subnet, as in cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=yes,name=lan; the word pool makes a pool of the whole subnet' '--pool:Add a pool, as in 10.0.0.10-10.0.0.99,name=web; also a single address, a CIDR, or subnet=IDENT' '--network:CIDR of an IPv4 subnet with one pool over all of it' '--gateway:Set the gateway of --network' '--network6:CIDR of an IPv6 subnet with one pool over all of it' '--gateway6:Set the gateway of --network6' '--type:vlan, vxlan, gre or geneve' '--physical-network:Which wire VLANs are of; nothing for other types' '--segment:Set the segmentation id; next, or a network type alone, allocates the next free id' '--project:Set the project of the network; its segment ranges provide the segmentation id' '-m:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--mac-prefix:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--add-reserved-ips:Reserve addresses and ranges externally, as in 10.0.0.2,10.0.0.5-10.0.0.9: pools never allocate them' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '-f:Take ranges of more than 65,536 addresses' '--force:Take ranges of more than 65,536 addresses' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--subnet:Add, change or remove a subnet, as shown above' '--pool:Add, rename or remove a pool, as shown above' '--add-reserved-ips:Reserve addresses and ranges externally, as in 10.0.0.2,10.0.0.5-10.0.0.9: pools never allocate them' '--remove-reserved-ips:Addresses and ranges that are not reserved any more' '--gateway:Set the gateway of the first IPv4 subnet; none removes it' '--network6:Set the CIDR of the first IPv6 subnet; none removes it' '--gateway6:Set the gateway of the first IPv6 subnet; none removes it' '--type:vlan, vxlan, gre or geneve' '--physical-network:Which wire VLANs are of; nothing for other types' '--segment:Set the segmentation id; next, or a network type alone, allocates the next free id; none removes it' '-m:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--mac-prefix:Set a MAC prefix instead of the cluster'\''s, as in aa:00:01' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '-f:Take ranges of more than 65,536 addresses' '--force:Take ranges of more than 65,536 addresses' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network connect')
            options=('-N:Set how NICs are connected, as in mode=bridged,link=br0,vlan=5; without it, by the cluster'\''s defaults' '--nic-parameters:Set how NICs are connected, as in mode=bridged,link=br0,vlan=5; without it, by the cluster'\''s defaults' '--no-conflicts-check:Do not check whether instances have such addresses, and do not reserve those of nodes' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                -N|--nic-parameters) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network disconnect')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-fields')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network info'|'gnt-network show')
            options=('--at:As it was then: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --at) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network history')
            options=('--address:Only this address' '--at:As it was then: local time as in 2026-05-04T13:00, seconds since the epoch, or -2h' '--limit:How many rows at most, the last ones' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-o:Columns, or +more columns, of address, instance, kind, from, to, job, opcode, user, reason, end_job, end_opcode, end_user, end_reason, instance_uuid, network_uuid' '--output:Columns, or +more columns, of address, instance, kind, from, to, job, opcode, user, reason, end_job, end_opcode, end_user, end_reason, instance_uuid, network_uuid' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--subnet:Only the pools of this subnet: CIDR, name or UUID' '--pool:Only the pool of this name or range' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --subnet) values=''; kind=none ;;
                --pool) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network export-reservations')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network import-reservations')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network dhcp')
            options=('--for:Which server' '--family:IP version of Kea'\''s file, where the network has both' '--domain:Domain that clients are told' '--interface:Interface that the server listens on' '--output:File to write instead of the standard output' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-f:Taken for older clients; a connected network stays' '--force:Taken for older clients; a connected network stays' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network list-tags')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network add-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-network remove-tags')
            options=('--from:Read tags from this file, one per line; - is standard input' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=network
            case $previous in
                --from) values=''; kind=file ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os ') options=('list:List operating systems with their variants' 'info:Show operating systems in full' 'modify:Change the defaults of an operating system'\''s parameters' 'diagnose:Show what each node has of them') ;;
        'gnt-os list')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os info')
            options=('--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=os
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-os modify')
            options=('-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '-H:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hypervisor-parameters:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hypervisor:Hypervisor parameters of instances with it, as in kvm:disk_type=ide' '--hidden:Whether gnt-os list leaves it, or one variant, out' '--blacklisted:Whether it is not installed, and not listed' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup ') options=('export:Export an instance to a node' 'import:Create an instance from an export' 'list:List exports' 'list-fields:List the columns that the list can have' 'remove:Remove the exports of an instance') ;;
        'gnt-backup export')
            options=('-n:Node that it goes to' '--node:Node that it goes to' '--transport-compression:Program that compresses dumps' '--compress:Program that compresses dumps' '--noshutdown:Do not stop the instance; its storage must support snapshots' '--shutdown-timeout:Seconds until the power is cut' '--remove-instance:Remove the instance when the export is complete' '--ignore-remove-failures:Remove it even when a disk cannot be removed' '-f:Do not ask, go on' '--force:Do not ask, go on' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=instance
            case $previous in
                -n|--node) values=''; kind=node ;;
                --transport-compression|--compress) values='none gzip gzip-fast gzip-slow zstd lzop'; kind=none ;;
                --shutdown-timeout) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup import')
            options=('--src-node:Node that has the export; without it, found' '--src-dir:Name of the export; without it, the instance'\''s' '-t:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '--disk-template:Set the disk template: file, sharedfile, plain, drbd, ext, diskless' '-s:Create one disk of this size, as in 10g' '--os-size:Create one disk of this size, as in 10g' '--disk:Create a disk, as in 0:size=10g,mode=rw,name=data; also vg, metavg, format, path, adopt, provider, access, spindles' '--net:Create a NIC, as in 0:network=net1,ip0=pool,ip1=192.0.2.4; ip takes an address, pool, or the name of a pool; also mac, mode, link, vlan, bridge, name. Without --net there is one NIC with the defaults' '--no-nics:Create no NIC' '-o:Install this operating system, as in busybox+default' '--os-type:Install this operating system, as in busybox+default' '-O:Set parameters of the operating system' '--os-parameters:Set parameters of the operating system' '--os-parameters-private:Set parameters of the operating system that are stored but never shown' '--os-parameters-secret:Set parameters of the operating system for this job only; they are not stored' '-n:Create the instance on this node; mirrored disks take a secondary node too' '--node:Create the instance on this node; mirrored disks take a secondary node too' '-g:Node group; without it, where a node is to be chosen, any' '--node-group:Node group; without it, where a node is to be chosen, any' '-I:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '--iallocator:Program that chooses; . or nothing for the cluster'\''s own, gantry for the built-in allocator' '-B:Set backend parameters, as in memory=1g,vcpus=2' '--backend-parameters:Set backend parameters, as in memory=1g,vcpus=2' '-H:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor-parameters:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--hypervisor:Set the hypervisor, its parameters, or both, as in kvm:kernel_path=/boot/vmlinuz' '--no-start:Do not start the instance' '--no-wait-for-sync:Do not wait until mirrored disks are in sync' '--no-install:Do not run the operating system'\''s scripts, and do not start the instance' '--force-variant:Take a variant that the operating system does not list' '--no-conflicts-check:Allow addresses that belong to a network the NIC is not in' '--ignore-ipolicy:Let the instance be larger or smaller than the policy of its node group says' '--tags:Tags, separated by commas' '-f:Allow addresses that are reserved externally' '--force:Allow addresses that are reserved externally' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('-n:Node' '--node:Node' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-backup remove')
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job ') options=('list:List jobs' 'list-fields:List the columns that the list can have' 'info:Show jobs in full' 'show:Show jobs in full' 'watch:Show a job'\''s log until it ends' 'wait:Wait until a job has ended, without its log' 'cancel:Cancel jobs that have not begun' 'archive:Put finished jobs into the archive' 'autoarchive:Archive all jobs that ended at least AGE ago, as in 3d; or all' 'change-priority:Change which jobs go first') ;;
        'gnt-job list')
            options=('--pending:Jobs that are queued or waiting' '--running:Jobs that are running or canceling' '--error:Jobs that are error' '--finished:Jobs that are success or error or canceled' '--archived:Also jobs in the archive, with a column that says so' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job list-fields')
            options=('--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job info'|'gnt-job show')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job watch')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job wait')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job cancel')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '--kill:Also those that have begun, which may leave things half done' '--yes-do-it:Mean --kill' '--pending:Jobs that are queued or waiting' '--queued:Jobs that are queued' '--waiting:Jobs that are waiting' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job archive')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job autoarchive')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-job change-priority')
            options=('-f:Do not ask, go on' '--force:Do not ask, go on' '--priority:Who goes first among waiting jobs' '--pending:Jobs that are queued or waiting' '--queued:Jobs that are queued' '--waiting:Jobs that are waiting' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=job
            case $previous in
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug ') options=('delay:Submit a job that sleeps' 'submit-job:Submit jobs from files, each a JSON list of opcodes' 'locks:Show the locks, who holds them and who waits') ;;
        'gnt-debug delay')
            options=('--no-master:Do not sleep on the master' '-n:Also sleep on this node' '--node:Also sleep on this node' '-r:How often; 0 is once' '--repeat:How often; 0 is once' '-l:Do not lock these nodes' '--no-locks:Do not lock these nodes' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                -n|--node) values=''; kind=node ;;
                -r|--repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug submit-job')
            options=('-v:Print the results' '--verbose:Print the results' '--op-repeat:Repeat the opcodes in a job' '--job-repeat:Repeat the jobs' '--timing-stats:Print how long it took' '--each:Submit one after the other instead of all at once' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=file
            case $previous in
                --op-repeat) values=''; kind=none ;;
                --job-repeat) values=''; kind=none ;;
                --priority) values='low normal high'; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gnt-debug locks')
            options=('--interval:Show them again after so many seconds' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--kind:Changes of such objects only' '--name:Changes of this object only, by name, UUID or number' '--since:From this serial, or this time, on' '--limit:How many changes' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--from:Begin with this serial' '--follow:Go on for ever, over restarts of the master too' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --from) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry export-config')
            options=('--output:Write it to this file' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --output) values=''; kind=file ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry simulate')
            options=('--seed:Run this seed and show its story' '--seeds:Run these seeds on all processors' '--processes:How many at once' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=none
            case $previous in
                --seed) values=''; kind=none ;;
                --seeds) values=''; kind=none ;;
                --processes) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range list')
            options=('--used:List only ranges with an id in use' '--not-used:List only ranges without an id in use' '--unused:List only ranges without an id in use' '--available:List only ranges with a free id' '--not-available:List only ranges without a free id' '--unavailable:List only ranges without a free id' '--long:Also show which ids are in use and which are free' '--no-headers:Leave the titles out' '--separator:Put this between columns, without padding' '--format:How to print' '--units:Unit of sizes: h picks one for each' '-o:Columns, or +more columns; list-fields names them' '--output:Columns, or +more columns; list-fields names them' '-v:Say in words why a value is missing' '--verbose:Say in words why a value is missing' '-F:Take the argument for a filter, not for a name' '--filter:Take the argument for a filter, not for a name' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --separator) values=''; kind=none ;;
                --format) values='table json yaml csv'; kind=none ;;
                --units) values='h m g t'; kind=none ;;
                -o|--output) values=''; kind=none ;;
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range show')
            options=('-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
            kind=range
            case $previous in
                --reason) values=''; kind=none ;;
            esac ;;
        'gantry segment range create')
            options=('--name:Set the name, which need not be unique' '--shared:Create the range for every project, which is the default' '--private:Create the range for one project' '--project:Set the project of a private range' '--project_id:Set the project of a private range' '--project-id:Set the project of a private range' '--network-type:Set the network type: vlan, vxlan, gre or geneve' '--network_type:Set the network type: vlan, vxlan, gre or geneve' '--physical-network:Set the physical network of a VLAN range' '--physical_network:Set the physical network of a VLAN range' '--minimum:Lowest segmentation id' '--maximum:Highest segmentation id' '--description:Description' '--tags:Tags, separated by commas' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--name:Its new name' '--minimum:Lowest segmentation id' '--maximum:Highest segmentation id' '--description:Description' '--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
            options=('--dry-run:Show what would be done, change nothing' '--priority:Who goes first among waiting jobs' '--submit:Submit the job and do not wait for it' '--print-jobid:Print the job'\''s number on the first line' '-d:Show what goes wrong in full; again for more' '--debug:Show what goes wrong in full; again for more' '--reason:Why you do it; kept with the job' '-h:Show this help' '--help:Show this help')
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
