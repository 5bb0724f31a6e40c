"""The numbers of C projects: weights, inputs and outputs as integers, and how operations use them.

Every project is printed from `network_numbers.NetworkNumbers`: an `IntegerOperation` of the simulator for
each operation, inputs, and what the outputs must be.

============================  ==========================================================================
`network_numbers`             what a project needs; the files that its outputs are compared with
`c_integers`                  which integer of C holds a tensor's elements; elements in memory and files
`trained_network`             a network of a user's file, in floating point
`quantised_network`           layers with widths of their own: from a plan of bit widths, trained, or made
`quantised_operations`        its operations in integers
`element_numbers`             the same in elements of one width, for a coarse graph
`made_numbers`                a coarse graph with elements of one width: made from a seed
`trained_numbers`             trained
============================  ==========================================================================
"""
