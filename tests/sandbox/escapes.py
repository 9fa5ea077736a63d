"""Code that tries to get out of a sandbox, and code that tries to bring it down (X09).

Each escape is the body of `evaluate` and returns True if it got somewhere. CANARY and PORT are filled in.
"""

ESCAPES: dict[str, str] = {
    # files
    "read a file": "return len(open('/etc/passwd').read()) > 0",
    "read a file through pathlib": "import pathlib\nreturn len(pathlib.Path('/etc/passwd').read_text()) > 0",
    "write a file": "open('CANARY', 'w').write('x')\nreturn True",
    "write a file through pathlib": "import pathlib\npathlib.Path('CANARY').write_text('x')\nreturn True",
    "touch a file": "from pathlib import Path\nPath('CANARY').touch()\nreturn True",
    "list a folder": "import os\nreturn len(os.listdir('/')) > 0",
    "scan a folder": "import os\nreturn len(list(os.scandir('/'))) > 0",
    "does a file exist": "import os\nreturn os.path.exists('/etc/passwd')",
    "read its own memory": "return len(open('/proc/self/maps').read()) > 0",
    "read its own environment": "return open('/proc/self/environ').read() is not None",
    "print into a file": "print('x', file=open('CANARY', 'w'))\nreturn True",
    "open by number": "return open(1, 'w') is not None",
    # the environment and the process
    "os.environ": "import os\nreturn len(os.environ) > 0",
    "os.getenv": "import os\nreturn os.getenv('PATH') is not None",
    "run a command": "import os\nos.system('touch CANARY')\nreturn True",
    "run a command and read": "import os\nreturn len(os.popen('id').read()) > 0",
    "subprocess": "import subprocess\nsubprocess.run(['touch', 'CANARY'])\nreturn True",
    "fork": "import os\nreturn os.fork() >= 0",
    "kill the parent": "import os\nos.kill(os.getppid(), 9)\nreturn True",
    "kill everything": "import os\nos.kill(-1, 9)\nreturn True",
    "signal": "import signal\nsignal.raise_signal(9)\nreturn True",
    "exit": "import os\nos._exit(0)\nreturn True",
    "sys.exit": "import sys\nsys.exit(0)\nreturn True",
    "raise SystemExit": "raise SystemExit('x')",
    "raise KeyboardInterrupt": "raise KeyboardInterrupt()",
    "a thread": "import threading\nthreading.Thread(target=print).start()\nreturn True",
    "a process": "import multiprocessing\nmultiprocessing.Process(target=print).start()\nreturn True",
    "wait for a person": "input('name?')\nreturn True",
    "a debugger": "breakpoint()\nreturn True",
    # the network
    "a socket": "import socket\nsocket.create_connection(('127.0.0.1', PORT))\nreturn True",
    "a raw socket": "import _socket\n_socket.socket().connect(('127.0.0.1', PORT))\nreturn True",
    "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT')\nreturn True",
    "http.client": "import http.client\nhttp.client.HTTPConnection('127.0.0.1', PORT).connect()\nreturn True",
    "asyncio": "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', PORT))\nreturn True",
    "ssl": "import ssl\nreturn ssl.get_server_certificate(('127.0.0.1', PORT)) is not None",
    # other modules
    "ctypes": "import ctypes\nreturn ctypes.CDLL(None) is not None",
    "pickle": "import pickle\nreturn pickle.loads(b'cos\\nsystem\\n(S\"touch CANARY\"\\ntR.') is not None",
    "marshal": "import marshal\nreturn marshal.loads(b'N') is None",
    "importlib": "import importlib\nreturn importlib.import_module('os') is not None",
    "gc": "import gc\nreturn len(gc.get_objects()) > 0",
    "inspect": "import inspect\nreturn len(inspect.stack()) > 0",
    "sys.modules": "import sys\nreturn sys.modules['os'] is not None",
    "sys through another module": "import collections\nreturn collections._sys.modules is not None",
    "os through json": "import json\nreturn json.codecs.open('/etc/passwd') is not None",
    "sys through dataclasses": "import dataclasses\nreturn dataclasses.sys.modules is not None",
    "sys._getframe": "import sys\nreturn sys._getframe() is not None",
    # names and code
    "__import__": "return __import__('subprocess') is not None",
    "__builtins__": "return __builtins__ is not None",
    "builtins": "import builtins\nreturn builtins.open('/etc/passwd') is not None",
    "eval": 'return eval(\'__import__("os").system("touch CANARY")\') == 0',
    "exec": "exec('import os; os.system(\"touch CANARY\")')\nreturn True",
    "compile": "return compile('1', 'x', 'eval') is not None",
    "globals": "return globals()['__builtins__'] is not None",
    "vars": "return vars()['__builtins__'] is not None",
    "globals of a function": "return evaluate.__globals__ is not None",
    "code of a function": "return evaluate.__code__ is not None",
    "globals by another spelling": "return getattr(evaluate, '__glob' + 'als__') is not None",
    "a function of one's own code": "return type(evaluate)(evaluate.__code__, {}) is not None",
    # classes
    "all subclasses": "return len(().__class__.__bases__[0].__subclasses__()) > 0",
    "object's subclasses": "return len(object.__subclasses__()) > 0",
    "the order of resolution": "return ''.__class__.__mro__ is not None",
    "a base of a class": "class A: pass\nreturn len(A.__base__.__subclasses__()) > 0",
    "a metaclass": "return type('X', (type,), {})('Y', (), {}).__subclasses__() is not None",
    "a reduce": "return len(object().__reduce_ex__(2)) > 0",
    # frames and tracebacks (CVE-2023-37271)
    "the frame of a generator": "return (x for x in [1]).gi_frame.f_back.f_globals is not None",
    "the frame of a generator that yields": (
        "def g():\n    yield gen.gi_frame.f_back.f_back.f_globals\ngen = g()\nreturn [x for x in gen][0] is not None"
    ),
    "the frame of a coroutine": "async def c(): pass\nreturn c().cr_frame.f_globals is not None",
    "the frame of a traceback": (
        "try:\n    1 / 0\nexcept Exception as e:\n    return e.__traceback__.tb_frame.f_back.f_globals is not None"
    ),
    "the object of an error": (  # CVE-2024-47532
        "try:\n    evaluate.nope\nexcept AttributeError as e:\n    return e.obj.__globals__ is not None"
    ),
    "groups of errors": (  # CVE-2025-22153
        "try:\n    raise ExceptionGroup('x', [ValueError()])\nexcept* ValueError as e:\n"
        "    return e.__traceback__.tb_frame is not None"
    ),
    # formats (CVE-2023-41039, CVE-2026-76825)
    "str.format": "return len('{0.__class__.__mro__}'.format(1)) > 0",
    "str.format into globals": "return len('{0.__globals__}'.format(evaluate)) > 0",
    "format_map": "return len('{x.__class__.__subclasses__}'.format_map({'x': 1})) > 0",
    "an f-string": "return len(f'{().__class__.__bases__}') > 0",
    "string.Formatter": "import string\nreturn len(string.Formatter().format('{0.__class__}', 1)) > 0",
    "a template": "import string\nreturn string.Template.pattern.__class__ is not None",
}

BOMBS: dict[str, str] = {
    # time
    "a loop": "while True: pass",
    "a loop that catches everything": "while True:\n    try:\n        while True: pass\n    except: pass",
    "a loop in a finally": "try:\n    while True: pass\nfinally:\n    while True: pass",
    "loops in loops": "return sum(1 for a in range(10**5) for b in range(10**5)) > 0",
    "a comprehension": "return [x for x in range(10**10)][0] == 0",
    "a sum": "return sum(range(10**11)) == 0",
    "all of a range": "return all(x >= 0 for x in range(10**12))",
    "a sort": "return sorted(range(10**8), key=lambda x: -x)[0] == 0",
    "printing": "while True: print('x' * 1000)",
    "asking the system": "import os\nwhile True:\n    try: os.getcwd()\n    except Exception: pass",
    "a pattern that backtracks": "import re\nreturn re.match('(a+)+$', 'a' * 40 + '!') is None and False",
    "permutations": "import itertools\nreturn len(list(itertools.permutations(range(14)))) == 0",
    "products": "import itertools\nreturn sum(1 for _ in itertools.product(range(100), repeat=8)) == 0",
    "an endless iterator": "import itertools\nreturn max(itertools.count()) == 0",
    # numbers
    "a square of squares": "x = 9\nwhile True: x = x * x",
    "a tower of powers": "return 9 ** 9 ** 9 > 0",
    "a large power": "return 10 ** 10 ** 8 > 0",
    "a shift": "return 1 << 10 ** 10 > 0",
    "a long number": "return int('9' * 10**7) > 0",
    "a number as text": "return len(str(9 ** 10**7)) > 0",
    "a factorial": "import math\nreturn math.factorial(10**7) > 0",
    "a power of a fraction": "from decimal import Decimal\nreturn Decimal(3) ** Decimal(10**9) > 0",
    # memory
    "a long text": "return len('a' * 10**10) > 0",
    "doubling": "s = 'a'\nwhile True: s = s + s",
    "a long list": "return len([0] * 10**9) > 0",
    "a growing list": "l = []\nwhile True: l.append('x' * 100)",
    "a growing dictionary": "d = {}\nfor i in range(10**9): d[i] = 'x' * 100\nreturn True",
    "a growing set": "return len({str(i) for i in range(10**9)}) > 0",
    "bytes": "return len(bytes(10**10)) > 0",
    "a wide format": "return len(f'{1:1000000000}') > 0",
    "an old format": "return len('%1000000000d' % 1) > 0",
    "centred": "return len('a'.center(10**10)) > 0",
    "replaced": "return len(('a' * 10**5).replace('a', 'b' * 10**5)) > 0",
    "joined": "return len(('x' * 10**5).join(['y'] * 10**5)) > 0",
    "lists in lists": "l = []\nfor _ in range(40): l = [l, l]\nreturn len(str(l)) > 0",
    "JSON of lists in lists": "import json\nl = []\nfor _ in range(40): l = [l, l]\nreturn len(json.dumps(l)) > 0",
    # the stack
    "recursion": "return evaluate(output, context)",
    "recursion by two": "def a(): return b()\ndef b(): return a()\nreturn a()",
    "recursion that catches": "try:\n    return evaluate(output, context)\nexcept: return evaluate(output, context)",
    "a deep list": "l = []\nfor _ in range(10**6): l = [l]\nreturn l == [l]",
    "a deep list as text": "l = []\nfor _ in range(10**5): l = [l]\nreturn len(repr(l)) > 0",
    "deep JSON": "import json\nreturn json.loads('[' * 10**6 + ']' * 10**6) is not None",
    "a list in itself": "l = []\nl.append(l)\nreturn str(l) == l",
}

NOT_BOOLS: dict[str, str] = {
    "a huge answer": "return ['x' * 1000] * 10**4",
    "a deep answer": "l = []\nfor _ in range(10**4): l = [l]\nreturn l",
    "an answer that pretends": "class B:\n    def __bool__(self): return True\n    def __eq__(self, o): return True\nreturn B()",
    "another True": "return 1",
    "a text": "return 'True'",
}
