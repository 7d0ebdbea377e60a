"""Boards through labgrid: the only package that imports labgrid drivers.

Env files name `farm.board.strategy` under `imports:`, so that labgrid finds the drivers and the strategy of farm. This
package itself imports nothing, since who plans and keeps books needs its pure parts without labgrid.
"""
