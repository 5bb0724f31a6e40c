/*
 * The core picorv32 as an RV32IM with a multiplier that is not serial, and what is seen of its bus.
 *
 * The bus carries whole words. Which bytes of one a load takes, is known in the core alone.
 */
`timescale 1 ns / 1 ps

module board (
    input clk,
    input resetn,
    output trap,
    output valid,
    output fetch,
    input ready,
    output [31:0] address,
    output [3:0] write,
    output [31:0] write_data,
    input [31:0] read_data,
    output [1:0] first_byte,
    output [2:0] bytes
);
    parameter [31:0] RESET = 32'h8000_0000;
    parameter [0:0] BARREL_SHIFTER = 0;

    picorv32 #(
        .ENABLE_COUNTERS(1),
        .ENABLE_COUNTERS64(1),
        .BARREL_SHIFTER(BARREL_SHIFTER),
        .COMPRESSED_ISA(0),
        .CATCH_MISALIGN(1),
        .CATCH_ILLINSN(1),
        .ENABLE_FAST_MUL(1),
        .ENABLE_DIV(1),
        .ENABLE_IRQ(0),
        .PROGADDR_RESET(RESET)
    ) core (
        .clk(clk),
        .resetn(resetn),
        .trap(trap),
        .mem_valid(valid),
        .mem_instr(fetch),
        .mem_ready(ready),
        .mem_addr(address),
        .mem_wdata(write_data),
        .mem_wstrb(write),
        .mem_rdata(read_data),
        .pcpi_wr(1'b0),
        .pcpi_rd(32'b0),
        .pcpi_wait(1'b0),
        .pcpi_ready(1'b0),
        .irq(32'b0)
    );

    assign first_byte = fetch ? 2'd0 : core.reg_op1[1:0];
    assign bytes = fetch || core.mem_wordsize == 0 ? 3'd4 : core.mem_wordsize == 1 ? 3'd2 : 3'd1;
endmodule
