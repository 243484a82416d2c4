"""Examination of a lake and of the machine.

examine          examine_lake, fix_lake: all findings of a lake, its files and the machine; safe fixes
findings         DoctorFinding: one thing examined, its severity and its fix
unfinished_runs  runs and journals that a killed process left
judge            examine_judge, examine_structure, write_judge_file: what a judge's endpoint honours
"""
