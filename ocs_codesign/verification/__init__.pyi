"""Made by .ci/public_names.py: names and where they are defined."""

from ocs_codesign.verification.circuits import ProgramVerdict as ProgramVerdict
from ocs_codesign.verification.circuits import check_timed as check_timed
from ocs_codesign.verification.circuits import check_timeline as check_timeline
from ocs_codesign.verification.circuits import verify_program as verify_program
from ocs_codesign.verification.forests import check_forest as check_forest
from ocs_codesign.verification.messages import check_messages as check_messages
from ocs_codesign.verification.schedules import Verdict as Verdict
from ocs_codesign.verification.schedules import verify as verify
from ocs_codesign.verification.schedules import verify_on as verify_on
from ocs_codesign.verification.sends import Witness as Witness
from ocs_codesign.verification.simulated import check_simulated as check_simulated
