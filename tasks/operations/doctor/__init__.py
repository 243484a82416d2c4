"""Examination of a lake and of the machine.

examine          examine_lake, mend_lake: all findings; safe fixes
findings         DoctorFinding: one thing examined, its severity and its fix
lake_files       missing, damaged, small and orphaned files
unfinished_runs  runs and journals that a killed process left
judge            examine_judge: what a judge's endpoint honours
machine          versions, catalog, disk, servers
"""
