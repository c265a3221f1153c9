"""The archive: what was fetched, as WARC files that other tools read, and an index of them.

DIR/JOB-20261116153000-00000.warc.gz   response, request and metadata of each page
DIR/index.sqlite                       where each of them is; can be made again from the files
DIR/index.cdxj                         the same for pywb, written when a job ends
"""
